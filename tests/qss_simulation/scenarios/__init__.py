"""Plays scenarios that people write as text, in the same simulated world as the seeds.

1. `script` reads the files of `tests/simulation/scenarios`: title, cases, store and lines.
2. `player` makes the world of one scenario, plays its lines, heals everything and makes the checks
   of a seed.
3. `seeds` plays scenarios under several seeds, for `make simulate SCENARIOS=1`.
4. The lines are of three modules, each with a table from patterns to methods: `breakage` breaks and
   mends things, `writing` writes and reads, `conditions` says what must hold. `stage` has what they
   share: the world, aliases of machines, kept volumes.

Processes end, and machines lose power, also behind an answer (`loses power behind its answer`), or
when a commit of several slices has written the first (`ends in the middle of a commit of`). A power
loss keeps some of what no sync covered, or nothing of it (`and all that no sync covered`).
`the disk of it syncs` is true while a sync is under way. `keep reading` reads one replica for a
while; what it shows at one sequence never changes. With `readers=0` only the lines read the store.

A line that no pattern matches, or that does not hold within its time, is a `ScriptError` with its
number. A name such as `active of 0` means the pod of that moment; a line `let old be active of 0`
keeps it. Times are simulated, and a scenario plays alike each time under one seed.

A new line is a method and its pattern. Tests: `tests/simulation/test_scenarios.py`;
`tests/docs/simulation.md` shows one.
"""
