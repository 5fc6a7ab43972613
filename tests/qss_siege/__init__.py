"""A load of hostile callers against one pod, and the bounds that the pod must keep under it."""
