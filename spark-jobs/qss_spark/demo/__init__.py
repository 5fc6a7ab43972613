"""The command `qss demo`: runs the whole system on one machine, and compares every row.

`run` is one run of the demo. It starts the local cluster by `processes`, writes the input of each
scenario of `scenarios`, and meanwhile lets `expected` compute the final rows from the same files in
plain Python. Then `driver` runs the jobs one after the other in a single Spark process, whose
program is `driver_program`, and starts this process again if it is killed.

While a job writes, `query_load` queries the same store and counts its rows, and `faults` kills a
pod of the store and later adds one. At the end the store's rows are compared with the expected
rows. `interruptions` turns signals into an orderly end, so that no pod outlives the demo; an
interrupted run continues with the next `qss demo`.
"""
