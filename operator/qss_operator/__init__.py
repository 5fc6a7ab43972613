"""The control plane: observes stores and pods, plans one safe step at a time, publishes status."""
