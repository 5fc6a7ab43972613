"""The command `qss explain`, which needs no store: error codes and the fields of the resource.

1. `command` has the command. A topic that begins with `spec`, `status` or `metadata` is a field of
   the resource, as `spec.store.window`; any other topic is an error code or the `type` of a problem
   document. Without a topic it lists the codes.
2. The texts of codes are those of `qss_core.codes`, from which the page `docs/errors.md` is made,
   too. A code that nobody knows is answered with the codes that are spelt alike.
3. `reference` prints a field from the schema of the CRD: its type, its description, its default and
   limits, its rules, and the fields inside. The form is that of `kubectl explain`, with defaults
   and limits added, since the schema has them.
4. The client does not import the operator, which has the CRD. The operator names the function that
   reads the schema in the entry-point group `qss.references`, as it names its commands in
   `qss.commands`. The function needs PyYAML alone, which comes with the extra `cli`.

Neither needs a store or a cluster.
"""
