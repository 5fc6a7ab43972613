"""The internal port, for writers, other pods and the operator (`/changelog`, `/control`).

`app` makes its routes; `coordinator_proxy` passes requests on to the pod with partition 0's
active; `writers` lists and deletes writers for a person.
"""
