"""Times of day as Kubernetes writes them."""

from datetime import UTC, datetime, timedelta

from qss_client.clock import Clock

_SECONDS = "%Y-%m-%dT%H:%M:%SZ"
# Always six digits: an API server refuses a MicroTime without them, and isoformat leaves them out
# in the one moment of a million that has none.
_MICROSECONDS = "%Y-%m-%dT%H:%M:%S.%fZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(clock: Clock) -> datetime:
    """The clock's time of day in UTC."""
    return _EPOCH + timedelta(milliseconds=clock.wall_ms())


def time_of(moment: datetime) -> str:
    """RFC 3339 with seconds (Kubernetes' Time)."""
    return _in_utc(moment).strftime(_SECONDS)


def micro_time_of(moment: datetime) -> str:
    """RFC 3339 with microseconds (Kubernetes' MicroTime)."""
    return _in_utc(moment).strftime(_MICROSECONDS)


def _in_utc(moment: datetime) -> datetime:
    assert moment.tzinfo is not None, "a time of day without its zone"
    return moment.astimezone(UTC)
