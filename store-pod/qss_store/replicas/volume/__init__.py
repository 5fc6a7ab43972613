"""What a pod keeps on its volume beside the databases.

`kept_files` holds the assignment and the marks of what was synced, `sync_marks` writes the
marks, and `room` watches whether the volume has the room without which no batch is taken.
"""
