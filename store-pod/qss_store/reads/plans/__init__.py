"""Plans requests: the keys, times or index rows of a partition, in bytes. Pure.

A plan is made once for a request, and carried out in each of its partitions. `keys` plans requests
for one key, a range or a count, `times` those for windows and sessions, `versions` those for
versions of a key, and `indexes` those for an index. `dispatch` chooses among them for an IQv2
query, by the type of the store, and refuses queries that the type does not answer.
"""
