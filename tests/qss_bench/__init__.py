"""Figures, each a ratio against a baseline in the same run: `make bench`."""
