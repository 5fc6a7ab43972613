"""Runs the real services of pods, the operator and writers under seeds, and checks every answer.

1. `story.run_seed` makes a `world`: a seeded loop, machines with clocks and disks, a network and an
   API server (`parts`). The spec and the small limits of the pods (`settings`) come from the seed.
2. `world` starts and ends the processes of the run: product code over these parts (`processes`).
3. For 20 simulated seconds `faults` makes the parts fail, drivers write and die, readers read, and
   in some runs a person scales the store. Everything is healed then.
4. `history` knows each batch and what was acknowledged. It judges each read and the end: no
   acknowledged batch is lost, and each is everywhere or nowhere.
5. At last the store must go on within a minute, and be whole after all machines lost power.

The same seed gives the same run in every process: all chances come from `world.random`, with a name
for each use, so that a new draw does not change the others. Product code that reads a clock, draws
or starts a thread by itself breaks that. A change of the product changes the runs: `test_seeds`
says which seeds meet which fault, and is adjusted then.

`python -m qss_simulation` runs many seeds (`make simulate`) or replays one; `planted` puts known
bugs back, each of which a scenario or a seed has to find. `scenarios` plays written stories in the
same world, and `replicated_log` is a smaller world without an event loop.

Tests: `tests/simulation`. `tests/docs/simulation.md` says how to read a run that failed.
"""
