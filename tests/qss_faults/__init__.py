"""Faults against the processes of one store, and the checks of every answer meanwhile.

1. `plan` chooses the size of a store and the order of its faults from a seed.
2. `run` starts the store (`machines`: its pods and its operator, made of `parts`), and beside it a
   writer and two readers in threads of their own.
3. `writing` writes known batches without a pause. `reading` reads them without a pause, with the
   client as a program does, and from each replica in turn. `content` says how the type of the store
   takes and shows the rows.
4. `run` has `strikes` strike with one fault after the other: a function for each kind of fault. It
   waits after each until the store is whole again and the writer goes on.
5. `history` knows the content of each batch, judges what each reader saw, and notes how long the
   writer waited and which reads failed, by the fault of that time.
6. After the last fault `last_check` compares every row of every in-sync replica with all batches.

`__main__` runs some seeds (`make test-faults`), prints a line for each fault, and ends with exit
code 1 if a bound is broken.
"""
