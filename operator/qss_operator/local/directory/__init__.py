"""The state directory of a local cluster (`.qss`): all that a `qss up` leaves for other commands.

1. `qss up` takes the lock of `state` first: one process runs a state directory. The lock is empty
   until this run has written the status files; then `state.write_holder` writes the process and its
   stores into it, and other commands see that the stores run.
2. `run` stores the resources of the files under `edit_lock`, as does each command that changes
   resources. Such a command holds this lock alone, and works beside the running `qss up`.
3. `cluster` takes the ports of each pod from `ports`, and records them: a pod keeps its ports,
   unless another program listens there.
4. `supervisor` records the process of each pod, so that `qss down` and the next `qss up` find pods
   whose parent was killed.

`files` replaces a file by a synced temporary one and a rename: a reader sees the old file or the
new one. On a full disk the record of a pod's process and the lock are written over the old ones, in
their blocks, and a status takes the space of a reserve file. Readers take no lock, and see a change
by the version of the file (inode, time, size). The locks are those of `flock`: the system releases
them when a process ends in any way. So a lock file without a living holder means nothing, and
nothing here deletes it.

`volumes` reads the parts of the store's definition that the pods keep, so that no resource with
another schema is stored over their data. `misplaced` finds folders that have another store than
their name says: no empty store begins in the place of a folder that was renamed. `renamed_pods`
finds folders that have another pod than their name says. `moves` words the commands that put
folders back.

A file that cannot be read or decoded is a `StateDirectoryError` that names it and what to do; a
missing file is None. Nothing here deletes data. The rest of `local` and the commands use this
package; of `local` it imports only `processes`. Tests: `test_local_state` and `test_changes`.
"""
