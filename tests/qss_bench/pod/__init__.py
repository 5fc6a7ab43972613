"""The benchmarks of one pod as a process: how soon it serves again, and how much memory it needs.

1. `recovery` kills a pod with a full write-ahead log, and compares the time until it serves with
   that of a plain RocksDB that is opened after the same end.
2. `memory` fills a pod of twelve partitions with ten million rows, and lets it answer gets, batch
   gets, ranges and scans of all rows while rows arrive. It reports the most memory that the pod had
   at any moment: the peak of its resident memory, as the kernel keeps it.

Both are parts of `make bench`, called by `qss_bench.__main__`, and return `report.Figure`s. The
target of `memory` is not a ratio: one gigabyte is what a person may give to a pod. Its pod has no
memory limit, so its shares of memory are the largest ones (`runtime.process.memory_shares`); with a
limit a pod takes less.

`memory` needs 4 GB below the directory of temporary files, and some minutes. What it sends comes
from `loads`: the rows of `loads.rows`, and the load of `loads.load`, which checks each answer's
status. A question that fails ends the run.
"""
