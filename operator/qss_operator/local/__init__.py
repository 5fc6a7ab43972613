"""A cluster on one machine: pods are child processes, the resource and its status are files."""
