"""Real pods: in this process, or as processes of their own."""
