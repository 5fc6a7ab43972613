"""The command `qss demo`: runs the whole system on one machine, and compares every row.

`run` is one run of the demo:

1. It starts the local cluster by `processes`: `qss up` as a child process.
2. It writes the input of each scenario of `scenarios`. Meanwhile `expected` computes the final rows
   from the same files, in plain Python.
3. `driver` runs the jobs one after the other in a single Spark process, whose program is
   `driver_program`. If that process is killed, it is started again, and the job goes on from its
   checkpoint.
4. A job may write no store: `mirror` runs `qss mirror` in a process of its own, which copies the
   state of the job into stores.
5. While a job writes, `query_load` queries the same store and counts its rows, and `faults` kills a
   pod of the store and later adds one.
6. At the end `run` reads all rows of the store and compares them with the expected rows. It prints
   the verdict; on a terminal the stores serve until Ctrl-C.

`interruptions` turns signals into an orderly end, so that no pod outlives the demo. An interrupted
run continues with the next `qss demo`.
"""
