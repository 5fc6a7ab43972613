"""The benchmarks of the control plane: its planner, and an operator at rest.

1. `planner` is a part of `make bench`. It settles a store of 4096 partitions with two standbys on
   100 pods, adds a pod and removes it again. It reports the longest round of the planner, and how
   many replicas moved in comparison with the fewest possible.
2. `operator_at_rest` is a command of its own, since it needs a real API server (the test bed will
   do). It makes stores of fake pods, waits until all are ready, and measures the memory of a real
   operator and its requests while nothing happens.

`planner` needs no process: `qss_testing.fakes.control_world` is the store, and applies each plan at
once. A store that has not settled after 400 rounds is an assertion. Only this part has a target in
seconds, one second for a round; the other target is a ratio.

`operator_at_rest` simulates a node, and answers for all of its pods. It works in a namespace of its
own, and deletes all that it made at the end. Its figures are in RESULTS.md.

Both use the product's code as it is: `qss_operator.planning.plan`, and the operator as a process.
`qss_bench.__main__` imports `planner` alone.
"""
