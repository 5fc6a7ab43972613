"""Faults: crashes, disks, networks, damaged volumes and slow readers.

A process ends: `faulty_engine` ends it at a chosen write or sync, or fills its disk there, and
`crashed_stories` continues a story after every such crash. `faulty_cluster` runs all pods of a
store in one process, over such engines and a network that loses and repeats messages.

A message is held or lost between real processes: `gates` and `proxy` do it at a request that the
test names. A gate stands before one pod's port; the proxy replaces the addresses of all pods, and
records what a writer sends.

A volume is bad: `small_disk` is too small, `damage` has a database that refuses writes,
`rolled_back` goes back to an older state, and `slow_sync` syncs when the test lets it.

A reader is slow: `slow_readers` reads only what the test asks for.

Bugs that are put back into the product (`make planted`) are in `qss_testing.plants`.
"""
