"""The command `qss`.

1. `main` makes the app: the commands of this package, and those of other packages, found by entry
   points. It imports only the package that has the wanted command, since some take seconds.
   `program` runs the app, and ends the process with an exit code.
2. `queries` has `qss get`, `scan`, `count` and `query`, `timed` has `windows`, `sessions` and
   `versions`, and `writers` lists a store's writers and deletes one. `stores` has `qss stores`,
   `describe` and `watch`, `console` opens the store's console in a browser, and `explain` has
   `qss explain`, which asks no store.
3. `option_groups` has the options that these commands share: how to reach a store (a URL, a state
   directory or Kubernetes), how to read from it, and the format of the output. `options` has the
   options of each query, and finds the store by them.
   `plugin` is the command `kubectl qss`: the same commands, with the options of kubectl instead.
4. A command calls the client (`qss_client.store`, `qss_client.writes.writers`).
5. `printing` prints the answer as a table (`tables`) or as CSV, as JSON, or as one JSON a line;
   `columns` makes columns of members of the values.
6. If the store answers with an error, `advice` rewrites it with the names of commands and options.
   `program` prints it as `error: CODE: message`.

The exit code tells scripts what happened: 0 done, 1 failure, 2 wrong usage or bad input, 3 not
found, 4 not available now, 130 interrupted.
"""
