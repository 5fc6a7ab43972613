"""QueryableStateStore resources as text: `manifests` reads YAML, `crd` the CRD file with its
defaults, `validation` says whether a resource is valid, with `cel` for the CRD's rules, and
`support` names what is valid but not supported.
"""
