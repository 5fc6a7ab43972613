"""The writer's half of the client: `batch` opens a writer, stages, commits and aborts, with
retries inside; `writers` lists the writers of a store, and deletes one.
"""
