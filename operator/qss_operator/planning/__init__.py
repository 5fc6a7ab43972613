"""Decisions of the control plane, as pure functions: an observation in, steps and a status out."""
