"""The versions of messages between pods and the operator: each side says its own in a header.

Version 1 says nothing: its programs have no standbys, and refuse members that they do not know. So
they are sent messages without these members. A later version adds optional members freely where
a receiver may ignore them (`model.Answer`); where it may not, the version gets the next number.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from qss_core.model import StoreAssignment, StoreSettings
from qss_core.version import MESSAGE_VERSION
from qss_core.wire.losses import (
    AcceptLossRequest,
    BatchesHeld,
    LastBatch,
    LostReplica,
    SequencesAnswer,
    SequencesRequest,
)
from qss_core.wire.messages import PartitionsAnswer
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport

VERSION_HEADER = "Qss-Message-Version"
VERSION_1 = 1
OWN_VERSION: Mapping[str, str] = {VERSION_HEADER: str(MESSAGE_VERSION)}
# The members that version 1 does not know. Their defaults are not sent.
_SINCE_2: dict[type[Struct], tuple[str, ...]] = {
    AcceptLossRequest: ("assignment",),
    BatchesHeld: ("inputs", "unfinished"),
    LastBatch: ("wall_time_ms",),
    LostReplica: ("configuration", "is_misplaced"),
    PartitionsAnswer: ("writer_epoch",),
    ReplicaReport: (
        *("answers", "asks_for_epoch", "caught_up", "detail", "has_damage", "is_compared"),
        *("is_damaged", "is_stopped", "lacks_lease", "misses_active", "silent", "unlike"),
        "waits_for_lease",
    ),
    ReplicasReport: ("copies", "full_volume", "is_leaving", "pods_kept", "unassigned", "volume"),
    SequencesAnswer: ("forgotten", "writer_epoch"),
    SequencesRequest: ("forgotten", "writer_epoch"),
    StoreAssignment: ("generation", "incarnation", "resource_uid"),
    StoreSettings: ("lease_ms", "replica_timeout_ms", "snapshot_bytes_per_s"),
}


def version_in(headers: Mapping[str, str]) -> int:
    """The version of the other side's messages; 1 where it names none."""
    named = headers.get(VERSION_HEADER, "")
    return int(named) if named.isascii() and named.isdigit() and len(named) < 4 else VERSION_1


def for_version(message: Any, version: int) -> Any:
    """The message without the members that a receiver of this version refuses."""
    if version > VERSION_1:
        return message
    return _for_version_1(message)


def _for_version_1(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_for_version_1, value))
    if not isinstance(value, Struct):
        return value
    kind = type(value)
    changed: dict[str, Any] = {}
    for field in fields(kind):
        member = getattr(value, field.name)
        if field.name in _SINCE_2.get(kind, ()):
            is_made = field.default_factory is not NODEFAULT
            changed[field.name] = field.default_factory() if is_made else field.default
        elif isinstance(member, tuple | Struct):
            changed[field.name] = _for_version_1(member)
    return replace(value, **changed) if changed else value
