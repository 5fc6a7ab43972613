"""Times in texts and JSON: milliseconds since 1970, RFC 3339, or a date.

Programs use a whole number of milliseconds since 1970 in UTC.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from qss_core.errors import MalformedRequestError
from qss_core.formats.timed_keys import TIME_MAX

TIME_MIN = -(2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SHOWN = 253_402_300_799_999  # The end of the year 9999, the last that RFC 3339 has.
_MILLIS = re.compile(r"-?[0-9]{1,19}")
_RFC3339 = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)

TimeWriter = Callable[[int], bytes]


class Times(StrEnum):
    """The format of times in an answer."""

    MILLIS = "millis"
    RFC3339 = "rfc3339"


def time_of_text(name: str, text: str) -> int:
    """The time in a parameter, in whole milliseconds. A date stands for its midnight.

    Raises MalformedRequestError with `name` for a text that is neither a number of milliseconds nor
    RFC 3339 nor a date.
    """
    if _MILLIS.fullmatch(text):
        return _checked(name, int(text))
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise _refused(name, text)
    zone = (found["zone"] or "Z").upper().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(f"{found['date']}T{found['time'] or '00:00:00'}{zone}")
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError) as error:
        raise _refused(name, text) from error
    return seconds * 1000 + int((found["fraction"] or "").ljust(3, "0")[:3])


def time_of_json(name: str, obj: object) -> int:
    """The time in a member of a body, a number of milliseconds or a text; as `time_of_text`."""
    if isinstance(obj, int) and not isinstance(obj, bool):
        return _checked(name, obj)
    if isinstance(obj, str):
        return time_of_text(name, obj)
    raise _refused(name, repr(obj))


@lru_cache(maxsize=4096)
def time_text(time: int) -> str | None:
    """The time by RFC 3339 in UTC; None for -1 (unknown) and times that RFC 3339 lacks."""
    if not 0 <= time <= _LAST_SHOWN:
        return None
    moment = _EPOCH + timedelta(milliseconds=time)
    precision = "milliseconds" if time % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def time_writer(times: Times) -> TimeWriter:
    """The function (milliseconds) -> JSON; times that RFC 3339 lacks stay numbers."""
    return _write_millis if times is Times.MILLIS else _write_rfc3339


def _write_millis(time: int) -> bytes:
    return b"%d" % time


def _write_rfc3339(time: int) -> bytes:
    text = time_text(time)
    return b"%d" % time if text is None else b'"%b"' % text.encode()


def _checked(name: str, time: int) -> int:
    if not TIME_MIN <= time <= TIME_MAX:
        raise MalformedRequestError(f"{name}: {time} milliseconds are no 64-bit number")
    return time


def _refused(name: str, text: str) -> MalformedRequestError:
    return MalformedRequestError(
        f"{name} is a time: milliseconds since 1970, like 2013-01-01T05:00:00Z (in a URL, the + of "
        f"an offset is %2B), or like 2013-01-01 (midnight, UTC), not {text[:40]!r}"
    )
