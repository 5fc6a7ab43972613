"""Encodes rows as answers.

`columns` splits many rows at once into keys, values, timestamps and headers, and `json` writes
them as JSON objects with one call. `timed_rows` writes rows of windows, sessions and versions with
their times. `batch_get` writes the rows of a batch get, where a row may be absent.

Values are not decoded where their bytes are JSON already: they go into the answer unchanged.
"""
