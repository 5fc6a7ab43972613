"""The codes of writers and their batches."""

from qss_core.codes.explanation import Explanation

BATCHES = {
    "STALE_WRITER": Explanation(
        meaning="This run of the writer may no longer write.",
        cause="A younger run of the same writer was opened, as by a restarted query, or the run "
        "was closed.",
        remedy="If two queries run, stop one or give each a writer name. After a restart this is "
        "how the former run ends, and nothing is to do.",
    ),
    "OTHER_CHECKPOINT": Explanation(
        meaning="The writer belongs to a query with another checkpoint.",
        cause="The query was started with a new checkpoint, or another query uses the same writer "
        "name.",
        remedy="Use the former checkpoint or another writer name. If the new checkpoint shall take "
        'the place of the former, start it with `onNewCheckpoint="takeOver"`.',
    ),
    "WRITER_OPEN": Explanation(
        meaning="The writer has an open run that sent requests lately, so it is not deleted.",
        cause="Its query may still run.",
        remedy="Stop the query and wait until it was silent for 150 s, or delete the writer with "
        "`qss writers STORE --delete WRITER --force`.",
    ),
    "UNKNOWN_WRITER": Explanation(
        meaning="The store knows no writer of this name.",
        cause="The writer never opened a run, or it was deleted.",
        remedy="`qss writers STORE --all` lists the writers. A query whose writer was deleted "
        "opens it again when it is restarted.",
    ),
    "TOO_MANY_WRITERS": Explanation(
        meaning="The store remembers as many writers as its limit allows.",
        cause="Each streaming query with a name of its own stays remembered until a person deletes "
        "it.",
        remedy="Delete writers whose queries will not come back: `qss writers STORE --delete "
        "WRITER`. Or use the same writer names again.",
    ),
    "BATCH_IN_PROGRESS": Explanation(
        meaning="A decided batch is being completed, and the next one has to wait.",
        cause="A partition is slow or away while the store brings a batch to all partitions.",
        remedy="Repeat the request; the sink does so. If it lasts, `qss status STORE` says which "
        "partition is away.",
    ),
    "BATCH_CLOSED": Explanation(
        meaning="The partition has applied this batch already.",
        cause="The batch is sent again after its answer was lost, as after a restart.",
        remedy="Ask the coordinator for the result of the batch; the sink does so, and nothing is "
        "written twice.",
    ),
    "BATCH_GAP": Explanation(
        meaning="The batch before this one was never decided.",
        cause="The store was restored to an older state than the checkpoint of the query has.",
        remedy="Start the query with a new checkpoint and "
        '`onNewCheckpoint="takeOver"`, so that it writes the missing rows again.',
    ),
    "BATCH_MISMATCH": Explanation(
        meaning="The batch was decided before, with other content.",
        cause="The checkpoint was restored or edited, so the query made other inputs into the same "
        "batch; or two sinks of one query have one writer name.",
        remedy="Give each sink a writer name. After an edit start a new checkpoint with "
        '`onNewCheckpoint="takeOver"`.',
    ),
    "CHUNK_MISMATCH": Explanation(
        meaning="A chunk of this id is staged with other rows.",
        cause="A writer used the id of a chunk twice. The sink gives each attempt of a task its "
        "own id.",
        remedy="In a writer of your own give each attempt an id of its own.",
    ),
    "CHUNK_MISSING": Explanation(
        meaning="A chunk that the commit names is not staged. Nothing was decided.",
        cause="The partition dropped the chunk after a timeout, or lost it with its volume before "
        "the commit.",
        remedy="Stage the chunk again and repeat the commit; Spark repeats the batch.",
    ),
    "SEQUENCE_TAKEN": Explanation(
        meaning="The partition has applied another batch at the sequence of this commit.",
        cause="Partition 0 went back to an older state and decided again what was decided before.",
        remedy="Bring the newer volume of partition 0 back, or accept the loss; "
        "`store-pod/docs/damage.md` has both ways.",
    ),
    "OUT_OF_ORDER": Explanation(
        meaning="A commit came before the commit that precedes it.",
        cause="A request of the coordinator was delayed or lost on its way to the partition.",
        remedy="Nothing is to do: the coordinator sends both again, in order.",
    ),
}
