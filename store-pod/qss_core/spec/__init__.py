"""The spec of a QueryableStateStore.

`resource` has its fields, defaults and bounds, `pod` those of `spec.pod`, `values` the types of
field values.
"""
