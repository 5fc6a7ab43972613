"""The command `qss load`: writes a file into a store, exactly once, without Spark.

1. `command` has the options. It imports the rest when it is called, because Arrow takes a second.
2. `input_rows` has the parts that all readers of files share: a row with its line, or a line that
   is no row. `csv_file`, `ndjson_file` and `parquet_file` read a file row by row.
3. `row_encoder` encodes the rows of a batch by the store's serdes, as Spark's sink does, and
   collects the lines that do not fit: a batch with such a line is not written.
4. `identity` makes the name of the writer from the path of the file, and the id of its query from
   the bytes of the file and the columns. So the store itself knows a file that has changed.
5. `loader` opens the writer, which tells the last batch that the store has. Batch n is the n-th
   slice of the rows, so the loader skips the slices up to that batch, and writes the others with
   the exchanges of `qss_client.writes`. A repeated run finds nothing to write.
6. `progress` shows a bar on a terminal, and a line every two seconds elsewhere.

The package needs the extra `store` (Arrow, numpy). Tests: `tests/unit/qss_client/cli/load`, and
`tests/integration/qss/test_qss_load.py` with real pods and a killed command.
"""
