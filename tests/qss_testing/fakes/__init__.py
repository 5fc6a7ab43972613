"""What stands in for the world: clocks, API servers, clusters and pods in memory."""
