"""A simple reference of a Versioned store: all puts that ever counted, in a dict."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qss_core.formats.timed_keys import STILL_VALID, decode_version_key, encode_version_key
from qss_core.model import StoreType
from qss_store.reads.codec import codec_of
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.plans.versions import plan_versions
from qss_store.reads.routing.admission import Reading
from qss_store.reads.scans.time_bounds import make_filter
from qss_store.reads.scans.timed_scan import open_rows, visible
from qss_store.reads.scans.version_lookup import find_version, versions_in
from qss_store.storage.views.versioned import VersionedView
from qss_testing.pods.stores import Put

_STILL_VALID = STILL_VALID.to_bytes(8, "big")
VERSIONED: dict[str, Any] = {"type": StoreType.VERSIONED, "format": "Plain"}


class Version(NamedTuple):
    """A version; `valid_to` None: the latest."""

    value: bytes
    valid_from: int
    valid_to: int | None


@dataclass(slots=True)
class Versions:
    """All puts that counted, and the versions that follow from them."""

    retention_ms: int
    stream_time: int = -1
    expired: int = 0
    puts: dict[bytes, dict[int, bytes | None]] = field(default_factory=dict)

    def commit(self, rows: Iterable[Put], wall_time_ms: int = 0, *, replace: bool = False) -> None:
        """Commits a batch; puts older than the retention before the batch are dropped."""
        if replace:
            self.puts, self.stream_time = {}, -1
        earliest = self.stream_time - self.retention_ms
        for row in rows:
            time = wall_time_ms if row.timestamp is None else row.timestamp
            self.stream_time = max(self.stream_time, time)
            if time < earliest:
                self.expired += 1
            else:
                self.puts.setdefault(row.key, {})[time] = row.value

    def all(self, key: bytes) -> list[Version]:
        """Every version of a key, oldest first, of any age."""
        puts = sorted(self.puts.get(key, {}).items())
        ends = [*(time for time, _ in puts[1:]), None][: len(puts)]
        return [
            Version(value, time, end)
            for (time, value), end in zip(puts, ends, strict=True)
            if value is not None
        ]

    def as_of(self, key: bytes, time: int | None = None) -> Version | None:
        """The version that was valid at a time."""
        for version in self.all(key):
            is_latest = version.valid_to is None
            if time is None or (is_latest and version.valid_from <= time):
                if is_latest:
                    return version
            elif time < self.stream_time - self.retention_ms or version.valid_to is None:
                continue
            elif version.valid_from <= time < version.valid_to:
                return version
        return None

    def between(self, key: bytes, first: int | None, last: int | None) -> list[Version]:
        """The versions that were valid at some time in a range, oldest first."""
        oldest = self.stream_time - self.retention_ms
        return [
            version
            for version in self.all(key)
            if (last is None or version.valid_from <= last)
            and (
                version.valid_to is None
                or (
                    (first is None or version.valid_to > first)
                    and version.valid_to > oldest
                    and (last is None or last >= oldest)
                )
            )
        ]

    def rows(self) -> dict[bytes, bytes]:
        """All kept versions, by row key."""
        return {
            encode_version_key(
                key, one.valid_from, STILL_VALID if one.valid_to is None else one.valid_to
            ): one.value
            for key in self.puts
            for one in self.between(key, None, None)
        }


# --- A pod's versions


def stored_rows(versions: VersionedView) -> dict[bytes, bytes]:
    """All versions of a partition, by row key; it compares bytes, since it runs often."""
    found = {key: row for key, row in versions.history.scan() if key[-16:-8] != key[-8:]}
    for key, row in versions.scan():
        found[key + _STILL_VALID + row[:8]] = row[8:]
    return found


def version_of(row: tuple[bytes, bytes]) -> Version:
    """A row of a store as a Version."""
    _, valid_from, valid_to = decode_version_key(row[0])
    return Version(row[1], valid_from, None if valid_to == STILL_VALID else valid_to)


def stored_as_of(reading: Reading, key: bytes, time: int | None = None) -> Version | None:
    """A replica's version at a time."""
    row = find_version(versions_in(reading), key, time)
    return None if row is None else version_of(row)


def stored_between(
    reading: Reading, key: bytes, first: int | None, last: int | None, order: str = "ASCENDING"
) -> list[Version]:
    """A replica's versions in a range of time."""
    bounds = {"from": first, "to": last}
    parameters = {name: str(time) for name, time in bounds.items() if time is not None}
    codec = codec_of(reading.replica.definition)
    plan = plan_versions({**parameters, "order": order}, codec, key)
    assert isinstance(plan, TimedPlan)
    plan = visible(reading, plan)
    matches = make_filter(plan)
    return [version_of(row) for row in open_rows(reading, plan) if matches(row[0])]
