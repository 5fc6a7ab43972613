"""QueryableStateStore resources as text.

`manifests` reads YAML. `crd` reads the CRD file, and fills in its defaults. `validation` checks a
resource, with `cel` for the CRD's rules. `support` names fields with valid values that are not
supported yet.
"""
