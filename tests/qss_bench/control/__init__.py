"""The benchmarks of the control plane: its planner, and an operator at rest."""
