"""Faults against the processes of one store, and the checks of every answer meanwhile.

`plan` chooses the faults from a seed. `run` starts the store, strikes with one fault after the
other, waits until the store is whole again, and ends with `last_check`. `strikes` has a function
for each kind of fault, on the `machines`: the store's pods and operator, made of `parts`.

`history` knows the rows of each batch, and judges what readers saw. `content` says how a type of
store takes and shows them. `writing` writes the batches, `reading` reads them from any replica,
both without a pause.
"""
