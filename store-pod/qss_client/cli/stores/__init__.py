"""The commands about whole stores, and the command that follows a key.

1. `listing` has `qss stores`: the stores of the local cluster in the state directory, or those of
   the pods at the given URLs. A store that gives no answer is listed with the code of its error.
2. `describe` has `qss describe`, which prints a `description.Description`: the definition of the
   store, its rows (RocksDB's estimate), each replica with its lag, and the writers. `description`
   gathers it: the definition and the count by the client, lags and bytes of all pods from one of
   them (`GET /state/status`), the writers from the internal port. A fact that a pod does not tell,
   or the caller may not see, is a note and no failure.
3. `watch` has `qss watch`, which prints each new row of a key. It asks with the ETag of the state
   that it has seen (`Store.get_newer`), at most twice a second, so a partition without a new batch
   answers 304 without a row. Of a store with times it asks for the newest windows, sessions or
   versions, and `row_changes` says what has changed between two looks.

All commands share the options and the connection (`cli.option_groups`, `cli.options`). Tests:
`tests/integration/qss/test_qss_stores.py`, with real pods.
"""
