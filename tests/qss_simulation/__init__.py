"""Runs the real services of pods, the operator and writers under seeds, and checks every answer.

`parts` are the simulated parts of the world that fail: loop, clocks, disks, network, API server.
`processes` are product code over these parts. `world` starts and ends the processes of a run,
`faults` makes the parts fail, `history` knows what must hold, and `story` tells one run.
`python -m qss_simulation` runs many seeds (`make simulate`), `planted` puts known bugs back.
"""
