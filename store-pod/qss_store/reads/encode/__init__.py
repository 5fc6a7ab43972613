"""Turns rows into answers: `columns` takes many rows apart at once, `json` writes them as JSON,
`timed_rows` adds times, `batch_get` writes the rows of a batch get.
"""
