"""Decides which row key and which column family a row of a batch gets.

`row_families` chooses by the store's type: `versions` for a Versioned store (whose intervals
`version_history` computes), `indexes` for a store type with indexes, and plain rows for the
rest. `placed` names what all of them return.
"""
