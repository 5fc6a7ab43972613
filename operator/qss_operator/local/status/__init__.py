"""Shows the published status of local stores: the texts of `qss status`.

1. `qss_operator.commands.local` calls `view.show_statuses`, or `watch.watch_statuses` for
   `--watch`. `qss up` prints the table of `view` alone.
2. `view` takes the status of each store from `present`. If no `qss up` runs the store, `present`
   says that it is stopped, whatever the file says: a killed run has not published its end. If the
   status was not renewed for 10 s, its health is unknown, and `present` says why.
3. For one store as a table, `summary` adds the conditions and the partitions of each pod, in
   ranges, so that the text stays short for any number of partitions. Roles of an old status are
   told as past ones.
4. `lags` then asks each pod of a running store, one after the other, how far its standbys and
   learners are behind. A pod that does not answer within half a second is left out. No pod is asked
   where the status is old.

`watch` looks five times a second whether a resource or status file was replaced or
became old, or the stores started or stopped. It reads them only then, and shows the text only if it
differs.

The JSON formats have the resource with its status and no lags. Nothing here writes a file or
decides anything: the conditions are made by `planning.status`. The commands use this
package, and `run` uses `present`.
Tests: `test_status_table` and `test_summary` (unit), and the commands themselves in
`test_qss_commands`, `test_qss_changes` and `test_qss_old_status` (integration).
"""
