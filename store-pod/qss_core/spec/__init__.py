"""The spec of a QueryableStateStore as values. Pure.

1. `resource.decode_spec` converts the dict of a validated resource to a `StoreSpec`, and fills in
   defaults. `pod` has the block `spec.pod`, `values` the types of fields: durations, quantities,
   serdes, labels.
2. `resource.definition_of` makes the definition of a store for its pods (`StoreDefinition`): type,
   serdes, partitions, retention. `resource.settings_of` makes the settings that may change at any
   time: sizes, limits, times of leases. The planner sends both to the pods inside the assignment.
3. A reader of the spec asks `effective_standbys` and `format`, not the fields: a store has no more
   standbys than pods beside the active, and its format may follow from its type.

The CRD file has the same fields, defaults and bounds; `test_spec` compares the two. So a change of
a field is a change of both. The rules between fields (CEL) are in the CRD alone.

Texts stay texts in the spec, as `10Gi` or `1h`: `qss_core.quantities` parses them where a number is
needed. No other package of the core imports `spec`. The operator uses it. Pods get the definition
and the settings, and use only `formats_of` of it. Tests: `tests/unit/qss_core/spec`.
"""
