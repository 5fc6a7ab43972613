"""Where a replica keeps its rows, and how rows find their place.

`engine` is the port: a database of column families with ordered bytes, atomic batches and views
of one moment. `rocksdb` implements it (with `rocksdb_iterators`); `memory_engine` is the
reference that it is tested against. Only these two modules of RocksDB import rocksdict. A scan's
rows come in `stretches`, lists of some hundred.

`column_families` says which families a partition has, by the store's type and format.
`placement` turns a batch's rows into row keys and families, `commit_rows` writes them in slices,
`views` reads them back as one state of one moment, also while some rows have an older format
(`format_migration` moves those) and while staged rows lie over them. `index_keys` makes the
index rows of a user's own store type. `replica_identity` keeps, in the database, whose replica
it is. `database_files` looks at a database's files from outside, `free_space` at the volume.

The package imports no replica, no pod and no HTTP. Its imports go from `commit_rows` to `placement`
to `column_families` and `views` to `engine`.
"""
