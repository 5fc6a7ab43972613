"""Fakes: clocks, API servers, clusters and pods in memory."""
