"""The codes that commands tell beside the codes of pods."""

from qss_core.codes.explanation import Explanation

COMMANDS = {
    "MISSING_EXTRA": Explanation(
        meaning="The command is known, and a package that it needs is not installed.",
        cause="`queryable-state` was installed without the extra of this command.",
        remedy="Install the extra that the message names, as `pip install 'queryable-state[cli]'`.",
    ),
    "KUBECTL": Explanation(
        meaning="kubectl is not on the path, or it has failed.",
        cause="kubectl is not installed, the kubeconfig or its context is wrong, or your account "
        "lacks a right in the cluster.",
        remedy="The message has the last line of kubectl. Try `kubectl get qss -n NAMESPACE` with "
        "the same context.",
    ),
    "INVALID_RESOURCE": Explanation(
        meaning="The resource of a store breaks the schema or a rule.",
        cause="A field is misspelt or has a value that is not allowed, or a change is asked for "
        "that a store does not take back.",
        remedy="The message names the field. `qss explain spec.store` prints the reference.",
    ),
    "UNSUPPORTED": Explanation(
        meaning="The resource asks for something that does not exist here.",
        cause="Some fields have an effect on Kubernetes alone, and some are reserved.",
        remedy="Leave the fields out that the message names, or run the store on Kubernetes.",
    ),
    "CONFLICT": Explanation(
        meaning="The object was changed by another program since it was read.",
        cause="Two programs write the same object at a time.",
        remedy="Repeat the command; the operator reads the object again by itself.",
    ),
    "NAME_TAKEN": Explanation(
        meaning="An object that is not the store's has the name that an object of the store needs.",
        cause="Another program made a Service, a StatefulSet or another object of that name.",
        remedy="Give the store another name, or delete the object if nobody needs it.",
    ),
    "ALREADY_RUNNING": Explanation(
        meaning="Another process runs the local cluster of this state directory.",
        cause="`qss up` was started before, perhaps in the background (`--detach`).",
        remedy="`qss status` shows its stores, `qss apply` changes them, `qss down` stops them. "
        "Another cluster needs another `--state-dir`.",
    ),
    "NOT_RUNNING": Explanation(
        meaning="The command needs running pods, and no `qss up` runs the store.",
        cause="The local cluster was stopped, or it was started without this store.",
        remedy="Start it with `qss up`; the data is kept in the state directory.",
    ),
    "NOT_THERE": Explanation(
        meaning="The store has no such partition or pod.",
        cause="The number or the name differs from the store's.",
        remedy="`qss status STORE` lists partitions and pods.",
    ),
    "STATE_DIRECTORY": Explanation(
        meaning="The state directory cannot be read or written, or has other files than a local "
        "cluster writes.",
        cause="The directory has other rights or another owner, the disk is full, or a file was "
        "edited or damaged.",
        remedy="The message names the file. Mend or move it, or take another `--state-dir`.",
    ),
    "CHECKPOINT": Explanation(
        meaning="The checkpoint of a Spark query cannot be read.",
        cause="The directory is no checkpoint, its volume is not mounted, a file is damaged, or "
        "the query keeps a state of a kind that is not read.",
        remedy="The message names the file or the part. `qss mirror CHECKPOINT` lists what can be "
        "read.",
    ),
}
