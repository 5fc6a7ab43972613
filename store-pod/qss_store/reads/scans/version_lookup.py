"""Finds versions of one key in one state of a partition, by the time of their validity.

A row is (row key, value); the latest version's row key ends at STILL_VALID. Replaced versions that
end at stream time - retention or before are hidden. So a time older than the retention, or a range
that ends before it, finds the latest version or nothing, as in Kafka.
"""

from collections.abc import Iterator
from itertools import chain
from typing import cast

from qss_core.formats.timed_keys import (
    STILL_VALID,
    VERSION_SUFFIX_BYTES,
    decode_version_key,
    encode_version_key,
)
from qss_core.formats.values import splitter_of
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.routing.admission import Reading
from qss_store.storage.family_names import LATEST_FORMAT
from qss_store.storage.views.versioned import VersionedView

Row = tuple[bytes, bytes]
_split_latest = splitter_of(LATEST_FORMAT)


def versions_in(reading: Reading) -> VersionedView:
    """The versions of a Versioned store's partition."""
    return cast(VersionedView, reading.view.rows)


def find_version(versions: VersionedView, key: bytes, as_of: int | None) -> Row | None:
    """The version of a key that was valid at `as_of`; None if it had no value then.

    Without `as_of` it is the latest version. Raises MalformedBytesError for a damaged row.
    """
    latest = _latest_of(versions, key)
    if latest is not None and (as_of is None or _valid_from(latest) <= as_of):
        return latest
    if as_of is None or not is_kept(versions, as_of) or not 0 <= as_of < STILL_VALID:
        return None
    row = versions.ends_after(key, as_of)
    # The mark of a tombstone begins and ends at the same time: it was never valid.
    return row if row is not None and _valid_from(row) <= as_of else None


def is_kept(versions: VersionedView, time: int) -> bool:
    """Whether versions that were valid at a time are kept: back to stream time - retention."""
    return time >= versions.history.earliest_visible - 1


def _latest_of(versions: VersionedView, key: bytes) -> Row | None:
    row = versions.get(key)
    if row is None:
        return None
    _, valid_from, value = _split_latest(row)
    assert valid_from is not None, "a latest version has its time"
    return encode_version_key(key, valid_from, STILL_VALID), value


def _valid_from(row: Row) -> int:
    return decode_version_key(row[0]).valid_from


def open_versions(
    versions: VersionedView, plan: TimedPlan, last_key: bytes | None
) -> Iterator[Row]:
    """Rows that include all rows of a plan, in order of time, after `last_key`.

    Marks, and rows of other keys between them, are included: the plan's filter drops them.
    """
    key = plan.key_from
    assert key is not None, "versions are asked for by key"
    latest = _latest_of(versions, key)
    if latest is not None and _valid_from(latest) > plan.start_to:
        latest = None
    lower = encode_version_key(key, 0, plan.earliest)
    upper = _upper(versions, key, plan.start_to)
    if last_key is not None and plan.reverse:
        upper = min(upper, _resumed_below(key, last_key))
        latest = latest if latest is not None and latest[0] < last_key else None
    elif last_key is not None:
        lower = max(lower, last_key + b"\x00")
        latest = latest if latest is not None and latest[0] > last_key else None
    of_history: Iterator[Row] = iter(())
    if lower < upper and plan.earliest < STILL_VALID:
        of_history = versions.history.scan(
            lower=lower, upper=upper, reverse=plan.reverse, earliest=plan.earliest, exact=False
        )
    of_latest = [] if latest is None else [latest]
    return chain(of_latest, of_history) if plan.reverse else chain(of_history, of_latest)


def _upper(versions: VersionedView, key: bytes, last: int) -> bytes:
    """The upper bound, exclusive, of row keys of versions that are valid from `last` or before."""
    if not 0 <= last < STILL_VALID:
        return key if last < 0 else versions.end_of(key)
    covering = versions.ends_after(key, last)
    if covering is not None and _valid_from(covering) <= last:
        return covering[0] + b"\x00"
    return encode_version_key(key, 0, last + 1)


def _resumed_below(key: bytes, last_key: bytes) -> bytes:
    """The upper bound of a backward scan after `last_key`.

    If the latest version was replaced since then, it is not returned twice.
    """
    if len(last_key) == len(key) + VERSION_SUFFIX_BYTES:
        _, valid_from, valid_to = decode_version_key(last_key)
        if valid_to == STILL_VALID:
            return encode_version_key(key, 0, valid_from + 1)
    return last_key
