"""Plays scenarios that people write as text, in the same simulated world as the seeds.

`script` reads the files of `tests/simulation/scenarios`. `player` makes the world of one scenario,
plays its lines, heals everything and makes the checks of a seed. The lines are of three modules:
`breakage` breaks and mends things, `writing` writes and reads, `conditions` says what must hold.

Processes end, and machines lose power, also behind an answer (`loses power behind its answer`), or
when a commit of several slices has written the first (`ends in the middle of a commit of`). A power
loss keeps some of what no sync covered, or nothing of it (`and all that no sync covered`).
`the disk of it syncs` is true while a sync is under way. `keep reading` reads one replica for a
while; what it shows at one sequence never changes. With `readers=0` only the lines read the store.
"""
