"""The store pod: it holds partitions of one store and answers queries of them over HTTP.

The packages by layer; a module imports from its own and from lower layers only:

    __main__                      reads the command line and starts the pod
    http                          the three ports
    reads, writes                 queries; batches
    replicas                      the partitions of this pod, from assignment to visible state
    storage                       RocksDB, families, placement of rows, views
    transactions, access          the rules of batches; tokens and rights of callers
    replication, runtime          the rules of the changelog; settings, metrics, limits

A write comes in at `http.internal`, is staged by `writes.participant_service`, decided by
`writes.coordinator_service` and applied by `replicas.apply` through `storage.commit_rows`. A read
comes in at `http.query`, is planned in `reads.plans`, admitted by `reads.routing.admission` and
answered from a view that `replicas.views.current_view` published.
"""
