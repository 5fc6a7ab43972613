"""The query port: what readers ask (`/state/...`).

`app` makes its routes. `point`, `scans`, `timed`, `versions` and `queries` answer one kind of
request each; `streams` and `arrow` write answers of many rows while they are read. `fast_path`
answers plain GETs straight from their bytes, with the same functions (`fast_rows` for many
rows). `openapi` describes all of it.
"""
