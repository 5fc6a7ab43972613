"""A replica's database: its rows, and the families and row keys that rows get.

`engine` is the port: a database of column families with ordered bytes, atomic batches and views
of one moment. The package `rocksdb` implements it, and is tested against an engine in memory that
tests have. Only that package imports rocksdict. A scan's rows come in `stretches`, lists of some
hundred.

`family_names` says which families a partition has, by the store's type and format.
`placement` turns a batch's rows into row keys and families, `commit_rows` writes them in slices,
`views` reads them as one state of one moment, also while some rows have an older format
(`format_migration` moves these rows) and while staged rows lie over them. `index_keys` makes the
index rows of a custom store type. `replica_identity` keeps, in the database, the pod and the
partition of the replica. `database_files` reads a database's files, `free_space` checks the volume.

The package imports no replica, no pod and no HTTP. Its imports go from `commit_rows` to `placement`
to `family_names` and `views` to `engine`.
"""
