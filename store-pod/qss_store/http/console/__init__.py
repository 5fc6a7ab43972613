"""The console: a page that shows a store to a person, at `/console/` of the query port.

The directory `static` has all of its files: the page, its modules and styles, and under `vendor`
the libraries at the versions in their names, with their licences. There is no build step: a
browser loads the files as they lie here. `files` reads them once in a process and serves them with
a strict Content-Security-Policy: no inline script or style, nothing from another host.

The page is a client of the public API like any other. It shows nothing of the store by itself, so
its files need no token; a store that checks its callers asks for one, and the page keeps it in
memory alone. It asks only the pod that it came from, which answers for the whole store.

The modules of the page: `main` draws the frame and chooses the view by the address's fragment,
`api` sends requests, and says failures as sentences; `feed` polls the store's status while the
page is visible. `overview` with `conditions`, `partitions`, `ask` and `live` are the views;
`questions` knows the kinds of question and writes each as HTTP, `elsewhere` as a command and as
Python, and `json-text` keeps the digits of numbers meanwhile; `answers` shows rows.
"""
