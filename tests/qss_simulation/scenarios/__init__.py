"""Plays scenarios that people write as text, in the same simulated world as the seeds.

`script` reads the files of `tests/simulation/scenarios`. `player` makes the world of one scenario,
plays its lines, heals everything and makes the checks of a seed. The lines are of three modules:
`breakage` breaks and mends things, `writing` writes and reads, `conditions` says what must hold.
"""
