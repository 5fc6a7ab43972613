"""A load of hostile callers against one pod, and what they may not break."""
