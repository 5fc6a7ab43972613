"""The rules of events: which ones are repetitions, how many a store may have, their text.

Memory is bounded: the event whose last repetition is the oldest is forgotten first.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from qss_operator.kubernetes.api.kinds import EVENTS, Kind
from qss_operator.kubernetes.api.requests import FIELD_MANAGER, Object
from qss_operator.times import time_of

_MESSAGE_BYTES_MAX = 1024  # The API server counts bytes.
_REASON = re.compile("[A-Z][A-Za-z0-9]{0,127}")
_NAME_LENGTH_MAX = 253
MINUTE_S = 60.0
EventKey = tuple[str, str, str, str]


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """The limits of repeated events, and of the events of one object."""

    same_within_s: float = 600.0
    a_minute: int = 10
    remembered_max: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object that events are about."""

    kind: Kind
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event of an object, before it is posted.

    One with the same `group` repeats the one before, also with another message.
    """

    subject: Subject
    type: EventType
    reason: str
    message: str
    group: str = ""

    def __post_init__(self) -> None:
        assert _REASON.fullmatch(self.reason), f"no CamelCase: {self.reason}"
        assert len(self.message.encode()) <= _MESSAGE_BYTES_MAX, "an unbounded message"

    @property
    def key(self) -> EventKey:
        """A key that is equal for repetitions of one event."""
        return self.subject.uid, self.type, self.reason, self.group or self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """An event that the API server has; `count` includes repetitions that are not posted yet."""

    name: str
    count: int
    last_s: float


class EventMemory:
    """The recent events, and the number of events that each object may still post."""

    def __init__(self, limits: EventLimits) -> None:
        self._limits = limits
        self.posted: dict[EventKey, Posted] = {}
        self._minute = 0.0
        self.of_this_minute: Counter[str] = Counter()  # Posts by object.

    def again(self, happening: Happening, now_s: float, *, counts: bool = True) -> Posted | None:
        """Counts a repetition (if it `counts`) and returns its event; None for a new event."""
        posted = self.posted.get(happening.key)
        if posted is None or now_s - posted.last_s > self._limits.same_within_s:
            return None
        counted = replace(posted, count=posted.count + counts, last_s=now_s)
        self._remember(happening, counted)
        return counted

    def made(self, happening: Happening, name: str, now_s: float) -> None:
        """Notes a new event that the API server has stored."""
        self._remember(happening, Posted(name=name, count=1, last_s=now_s))

    def forget(self, happening: Happening) -> None:
        """Forgets an event: the API server deletes events after an hour."""
        self.posted.pop(happening.key, None)

    def may_post(self, subject: Subject, now_s: float) -> bool:
        """Counts a post of the object in this minute; returns whether the limit allows it."""
        if now_s // MINUTE_S != self._minute:
            self._minute = now_s // MINUTE_S
            self.of_this_minute.clear()
        self.of_this_minute[subject.uid] += 1
        return self.of_this_minute[subject.uid] <= self._limits.a_minute

    def _remember(self, happening: Happening, posted: Posted) -> None:
        self.posted.pop(happening.key, None)
        self.posted[happening.key] = posted
        if len(self.posted) > self._limits.remembered_max:
            del self.posted[next(iter(self.posted))]


def event_of(happening: Happening, token: str, reporter: str, now: datetime) -> Object:
    """The body of a new event; `token` makes its name unique."""
    subject = happening.subject
    time = time_of(now)
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{subject.name[: _NAME_LENGTH_MAX - len(token) - 1]}.{token}",
            "namespace": subject.namespace,
        },
        "involvedObject": {
            "apiVersion": subject.kind.api_version,
            "kind": subject.kind.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": happening.type.value,
        "reason": happening.reason,
        "message": happening.message,
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": reporter[:128],
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def again_patch(posted: Posted, message: str, now: datetime) -> Object:
    """The merge patch for a repeated event."""
    return {"count": posted.count, "lastTimestamp": time_of(now), "message": message}


def bounded(message: str) -> str:
    """The message, cut to the length that the API server accepts."""
    encoded = message.encode()
    if len(encoded) <= _MESSAGE_BYTES_MAX:
        return message
    # Cut between characters, not inside one.
    return encoded[: _MESSAGE_BYTES_MAX - 3].decode(errors="ignore") + "..."
