"""Where one replica keeps its bytes: a small port and its two implementations."""
