"""Records the messages of a version: documents that it sends, and the schemas by which it reads.

    git archive COMMIT | tar --extract --directory TREE
    python tests/contract/before/record.py TREE COMMIT > tests/contract/before/messages.json

The import paths are those of c5a02872. A later version before this one needs its own.
"""

import importlib
import json
import sys
from typing import Any

import msgspec

EPOCH = {"partition": 0, "epoch": 3, "active": 0, "inSync": [0], "replicas": [0]}
DEFINITION = {
    "name": "words",
    "storeId": "5f0c",
    "type": "KeyValue",
    "format": "Timestamped",
    "keySerde": "string",
    "valueSerde": "json",
    "partitioner": "Murmur2",
    "partitions": 1,
}
POD = {"ordinal": 0, "name": "words-0", "query": "http://a:8080", "changelog": "http://a:8081"}
ASSIGNMENT = {"definition": DEFINITION, "settings": {}, "pods": [POD], "partitions": [EPOCH]}
INSTANCE = {
    "pod": "words-0",
    "ordinal": 0,
    "query": "http://a:8080",
    "changelog": "http://a:8081",
    "active": [0],
    "standby": [],
}
METADATA = {"definition": DEFINITION, "instances": [INSTANCE], "assignment": [EPOCH]}
POSITION = {"input": {"0": 17}}
BATCH = {"writer": "job", "generation": 1, "batch": 6, "writerEpoch": 2}
CHUNKS = {"0": [["2-0-0-0", 3, "77"]]}
DECISION = {
    **BATCH,
    "sequence": 7,
    "chunks": CHUNKS,
    "position": POSITION,
    "wallTimeMs": 1_700_000_000_000,
    "fingerprint": "ab",
    "replace": False,
}
ASKED = {"storeId": "5f0c", "epochs": {"0": 3}}
LAST = {
    "writer": "job",
    "generation": 1,
    "batch": 6,
    "sequence": 7,
    "oneOff": False,
    "writerEpoch": 2,
}
HELD = {"sequence": 7, "completed": 6, "decided": 7, "position": POSITION, "last": [LAST]}
REPLICA = {
    "configuration": EPOCH,
    "role": "active",
    "state": "serving",
    "appliedOffset": 9,
    "endOffset": 9,
    "sequence": 7,
    "format": "Timestamped",
    "coordinated": 7,
    "migration": {"formats": ["Plain"], "rowsMoved": 1, "rowsLeft": 2, "error": None},
    "index": {"rowsDone": 1, "rowsLeft": 2},
    "losses": [{"first": 3, "last": 4, "epoch": 2}],
    "acceptedIn": 2,
}
REPORT = {
    "store": "words",
    "storeId": "5f0c",
    "pod": "words-0",
    "ordinal": 0,
    "incarnation": "a1",
    "version": 5,
    "ready": True,
    "replicas": [REPLICA],
    "lost": [{"partition": 1, "error": "damaged", "isWaiting": True}],
}
# What each message says; the version adds all that it says beside.
SAID: dict[str, tuple[str, Any]] = {
    "ReplicasReport": ("qss_core.replica_reports", REPORT),
    "StoreAssignment": ("qss_core.model", ASSIGNMENT),
    "AcceptLossRequest": ("qss_core.losses", {"storeId": "5f0c", "partition": 0, "epoch": 3}),
    "SequencesRequest": (
        "qss_core.losses",
        {"storeId": "5f0c", "sequences": {"0": 7}, "completed": 6, "partition": 0},
    ),
    "SequencesAnswer": (
        "qss_core.losses",
        {"sequences": {"0": 7}, "completed": 6, "held": HELD},
    ),
    "PrepareRequest": (
        "qss_core.wire",
        {**ASKED, **BATCH, "chunks": CHUNKS, "carriedBytes": 5, "sequence": 8},
    ),
    "CommitPartitionsRequest": (
        "qss_core.wire",
        {**ASKED, "decision": DECISION, "rows": {"0": "YWJj"}},
    ),
    "AbortPartitionsRequest": ("qss_core.wire", {**ASKED, **BATCH}),
    "PartitionsAnswer": ("qss_core.wire", {"partitions": {"0": None}, "dropped": {"0": 1}}),
    "ResolveRequest": ("qss_core.wire", {"storeId": "5f0c", "epoch": 3, **BATCH}),
    "ResolveAnswer": ("qss_core.wire", {"verdict": "open"}),
    "StoreMetadata": ("qss_core.wire", METADATA),
    "OpenWriterRequest": ("qss_core.wire", {"queryId": "q", "runId": "r", "openId": "o"}),
    "WriterOpened": (
        "qss_core.wire",
        {
            "storeId": "5f0c",
            "writerEpoch": 2,
            "generation": 1,
            "lastBatch": 6,
            "sequence": 7,
            "chunkBytesMax": 8_388_608,
            "metadata": METADATA,
        },
    ),
    "StageAnswer": ("qss_core.wire", {"partitions": {"0": {"records": 3, "checksum": "77"}}}),
    "CommitRequest": (
        "qss_core.wire",
        {"generation": 1, "chunks": CHUNKS, "position": POSITION, "fingerprint": "ab"},
    ),
    "CommitAnswer": (
        "qss_core.wire",
        {"sequence": 7, "alreadyApplied": False, "position": POSITION, "dropped": {"0": 1}},
    ),
    "AbortAnswer": ("qss_core.wire", {"decided": False}),
    "RenewAnswer": ("qss_core.wire", {"closesAfterS": 60.0}),
}


def main(tree: str, commit: str) -> None:
    """Prints the documents and the schemas of the program in a folder."""
    sys.path[:0] = [f"{tree}/store-pod"]
    kinds = {
        name: getattr(importlib.import_module(module), name) for name, (module, _) in SAID.items()
    }
    _, schemas = msgspec.json.schema_components(
        list(kinds.values()), ref_template="#/schemas/{name}"
    )
    documents = {
        name: msgspec.to_builtins(msgspec.convert(said, kinds[name]))
        for name, (_, said) in SAID.items()
    }
    recorded = {"commit": commit, "documents": documents, "schemas": schemas}
    json.dump(recorded, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
