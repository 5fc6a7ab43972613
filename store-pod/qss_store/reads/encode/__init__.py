"""Encodes stored rows as answers. Pure.

A scan hands over a chunk of rows from one state, as two lists: row keys and row bytes.

1. `columns` splits them into keys, times, values, timestamps and headers, with a few steps of numpy
   or Arrow for all rows together. If that fails, the functions for single rows run, since they
   raise the right error.
2. `json` makes an object of each row, and encodes all with one call: with commas for an array
   (`JsonRows`), or as lines (`NdjsonRows`). `http.query.arrow` takes the same columns for Arrow.
   `csv_encoder` makes CSV of the JSON.
3. `timed_rows` writes single rows of windows, sessions and versions with their times.
   `rows_for_pods` writes the lines for another pod, and reads the row key back from such a line.
4. `batch_get` writes the rows of a batch get, which have their partition and a status. It returns
   None if a row is damaged: then `get_many` writes them one by one, and only that key fails.

Values are not decoded if their bytes are JSON already: they go into the answer unchanged. The bytes
of `json` equal those of the writers of single rows, so a new member goes into both.

The members of a row follow the `shape` of the plan, not the store's format alone: a KeyQuery hides
timestamps. A row with times but without a timestamp shows the time of its key.

The package uses `plans` and `codec`, and no replica. Tests: `test_row_encoders`, `test_codec`,
`test_timed_rows` and `test_rows_for_pods` in `tests/unit/qss_store/reads`.
"""
