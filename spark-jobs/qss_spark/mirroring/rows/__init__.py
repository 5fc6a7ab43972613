"""Makes rows of a store from the keys and values of a query's state.

1. `store_rows` encodes the rows of one store: the key by the store's key serde, the value by its
   value serde, a slice for each partition. Columns and rows that do not fit the store are refused
   by name.
2. `row_times` finds the times of rows: a Window store has the start of a window beside the key, and
   a Session store the start and the end of a session. Spark has microseconds, and its session ends
   a gap after its last event.
3. `computed_values` computes the columns that `--value` names, from an expression of columns,
   numbers and four operations, which is read by Python's grammar and never run as a program.
4. `time_to_live` unwraps values of a processor's variable that have one.
5. `json_values` makes JSON of Arrow's values: times are RFC 3339, bytes are base64, and decimals
   keep their digits.
6. `spark_rows` reads the same keys and values with Spark's own reader, for a comparison. It alone
   needs Spark; the other modules are pure.

A session that grows is another row of its store, so `store_rows` is told the rows that keys had
before, and deletes those that are not written again. With `keep_deleted` rows of keys that the
query drops stay.

Tests: `test_mirror_rows`, `test_mirror_times`, `test_mirror_values` and
`test_mirror_expiry` (unit).
"""
