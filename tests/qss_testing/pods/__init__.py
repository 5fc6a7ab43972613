"""Real pods, in this process or as processes."""
