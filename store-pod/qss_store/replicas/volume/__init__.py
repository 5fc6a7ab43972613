"""The files of a pod's volume beside the databases, and the volume's free space.

`assignment_file` keeps the pod's assignment, on the volume and in memory. `kept_files` reads and
writes the sync marks: these record how much of each database was synced. `sync_marks` renews the
marks. `volume_watch` watches whether the volume is there, and has the free space that the pod keeps
back. `scrubber` reads all rows slowly, reports the damage that it meets, and has the rows
compared with those of standbys.
"""
