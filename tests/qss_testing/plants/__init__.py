"""Known bugs that can be put back, to see that a test finds each of them.

`planted` has the mends of bugs and the code that takes one out; `planted_standbys` has the rules of
standbys, and `planted_fast_path` damages of the fast path. `make planted` puts each bug back in a
copy of the program and runs the test that guards it. `planted_batches` and `planted_replicas` have
rules that only the simulation takes out (`make simulate PLANTED=1`), which puts back those of the
first two, too, and says which seed or scenario finds each.
"""
