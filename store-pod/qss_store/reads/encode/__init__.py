"""Encodes rows as answers.

`columns` splits many rows at once, `json` writes them as JSON, `timed_rows` adds times, and
`batch_get` writes the rows of a batch get.
"""
