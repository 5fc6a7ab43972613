"""The codes of stores, partitions and replicas that are elsewhere, or cannot answer now."""

from qss_core.codes.explanation import Explanation

ANSWERS = {
    "STORE_NOT_FOUND": Explanation(
        meaning="There is no store of this name where the request went.",
        cause="The name is misspelt, the URL is that of another store's pod, the namespace is "
        "another one, or no store of this name was started in the state directory.",
        remedy="`qss stores` lists the stores of this machine, `kubectl get qss -A` those of a "
        "cluster.",
    ),
    "KEY_NOT_FOUND": Explanation(
        meaning="The store has no row for this key: the partition of the key has answered.",
        cause="No batch has written the key, or a later batch deleted it. A key with another type "
        'than the store\'s is another key: 1 is not `"1"`.',
        remedy="Nothing is wrong with the store. For a key that was just written send the writer's "
        "position as `positionBound`, or ask again later.",
    ),
    "DOES_NOT_EXIST": Explanation(
        meaning="The store has no partition with this number.",
        cause="The request names a partition that is not below `spec.partitions`.",
        remedy="`qss describe STORE` tells the number of partitions; they begin with 0.",
    ),
    "NOT_PRESENT": Explanation(
        meaning="Another pod has the partition.",
        cause="The partition moved, or the request asked this one pod alone and it has no replica "
        "of the partition.",
        remedy="Read `GET /state/instances/{store}` again and ask a pod that it names; clients do "
        "so.",
    ),
    "NOT_ACTIVE": Explanation(
        meaning="This replica is not the active of the partition.",
        cause="The active has moved to another pod, or its lease has run out and a standby takes "
        "over.",
        remedy="Read `GET /state/instances/{store}` again and ask the active; clients do so. If it "
        "lasts, `qss status STORE` says why no replica is active.",
    ),
    "NOT_UP_TO_BOUND": Explanation(
        meaning="The replica has not reached the position that the request demands.",
        cause="`positionBound` is newer than what the replica has applied: the batch is on its "
        "way, or the position is that of another store or of one that went back.",
        remedy="Repeat the request after `retryAfterMs`; clients do so until their deadline. If it "
        "lasts, look at the lag of the replica (`qss describe STORE`).",
    ),
    "TOO_STALE": Explanation(
        meaning="The standby has not heard from its active for longer than `maxStaleness` allows.",
        cause="The network between both pods is cut, the active is overloaded, or the standby is "
        "just catching up.",
        remedy="Ask another replica or the active (`requireActive`), or allow a larger "
        "`maxStaleness`.",
    ),
    "UNCOMMITTED_TOO_LARGE": Explanation(
        meaning="More rows are staged than a pod shows before their commit.",
        cause="A read with the isolation `READ_UNCOMMITTED` met a batch that is larger than the "
        "memory for it (`uncommittedMaxBytes`).",
        remedy="Repeat the read: once the batch is committed it succeeds. Or read with "
        "`READ_COMMITTED`.",
    ),
    "UNREACHABLE": Explanation(
        meaning="No replica of the partition, or no pod of the store, gave an answer.",
        cause="The pods are stopped, restarted or overloaded, the URL is wrong, or the network "
        "does not lead there.",
        remedy="`qss status STORE` (on Kubernetes `kubectl get qss`) says which pods are ready. "
        "Clients repeat reads until their deadline.",
    ),
    "NOT_READY": Explanation(
        meaning="The pod, or the store, is not ready yet.",
        cause="The pod has just started and opens its databases, waits for its assignment, or a "
        "replica takes over. A command waited for a store, and its time is over.",
        remedy="Repeat the request; clients do so. If it lasts, `qss status STORE` says what the "
        "store waits for.",
    ),
    "DEADLINE_EXCEEDED": Explanation(
        meaning="The request did not end within its own timeout.",
        cause="The timeout is short for the rows that are asked for, or pods are slow or away.",
        remedy="Give more time (`qss --timeout`, `RetryLimits(deadline_s=...)`), or ask for less "
        "at once with `--limit`.",
    ),
    "STORE_EXCEPTION": Explanation(
        meaning="The pod failed to answer, for a reason that the caller cannot change.",
        cause="The disk returned other bytes than were written, stored rows do not have the "
        "store's serdes or format, or the pod met an error that nobody foresaw.",
        remedy="The pod's log has the place. Damaged replicas are told by the condition `Degraded` "
        "of `qss status STORE`; `store-pod/docs/damage.md` says what to do with them.",
    ),
    "STORE_TYPE_FAILED": Explanation(
        meaning="The custom type of the store cannot compute the index rows of a row.",
        cause="The code of the type raised an error for the row, or gave no valid index row.",
        remedy="Correct the row in the job or the type in its package; the pod's log and the "
        "message name the row.",
    ),
    "DISK_FULL": Explanation(
        meaning="The volume of a pod has no space for the rows. Acknowledged rows are safe.",
        cause="The store has grown, or something else fills the volume.",
        remedy="Enlarge `spec.storage.size`, or add pods (`spec.replicas`). A writer asks again "
        "for two minutes and goes on by itself once there is space; a query that has ended goes "
        "on when it is started again.",
    ),
    "STALE_EPOCH": Explanation(
        meaning="The request was sent in an older configuration of the partition.",
        cause="A failover or a move gave the partition another active, and the sender had not "
        "heard of it.",
        remedy="Read the addresses again and repeat the request; clients and pods do so.",
    ),
    "WRONG_STORE": Explanation(
        meaning="The pod has another store than the request names, though it may have its name.",
        cause="The store was deleted and made anew, or an address or a volume was used again.",
        remedy="Read the addresses again. A job that wrote the former store begins with a new "
        "checkpoint.",
    ),
    "ROLLED_BACK": Explanation(
        meaning="A replica lacks batches that were completed: its volume went back to an older "
        "state.",
        cause="A volume was restored from a snapshot, copied or exchanged, and no other replica "
        "has the missing batches.",
        remedy="Bring the newer volume back, or accept the loss; `store-pod/docs/damage.md` has "
        "both ways.",
    ),
}
