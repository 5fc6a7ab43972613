"""QueryableStateStore resources as text and dicts: reads, checks and completes them.

A file of `qss up` or `qss apply` goes through all modules, called by `local.prepare`:

1. `manifests` reads the YAML documents. It refuses aliases, repeated fields, files over 1 MiB and
   more than 64 stores.
2. `validation` drops nulls and fills in defaults with `crd`, and checks the result against the JSON
   Schema of the CRD, with the validator that `json_schemas` imports. If that finds no problem,
   `cel` evaluates the CRD's rules, those about changes against the stored resource.
3. `support` refuses fields with valid values that have no effect yet, or none on one machine.

`status_document` writes and reads the status of a resource in both places.

On Kubernetes the API server checks the resource. There the operator uses only `canonical` of
`crd`, and `supported_spec` of `support`, which replaces values that are not supported.

The CRD file is the only list of fields: a new rule goes there, and `cel` needs a change only if the
rule calls a function that `_FUNCTIONS` lacks. A rule that fails to evaluate is a broken rule, as at
the API server. Problems are sentences with the path of the field; at most 20 are shown.

The package is below `reconcile`, `local` and `kubernetes`, and imports none of them. Tests:
`tests/unit/qss_operator/resources`, and `tests/contract/test_resource_corpus.py` with good and bad
resources, which `tests/e2e/test_crd.py` sends to a real API server.
"""
