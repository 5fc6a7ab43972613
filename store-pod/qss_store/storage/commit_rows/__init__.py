"""Applies a commit to the database.

`row_slices` cuts the commit's rows into slices, so that no reader waits long; `commit_writer`
writes each slice, and last the new state of the batch; `index_build` makes index rows anew
where a store type's indexes have changed.
"""
