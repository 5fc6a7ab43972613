"""Reads the answers of pods within limits, since the author of a store chooses the pod's program.

One operator serves the stores of many authors. So an answer is never decompressed, it is read up to
a limit, all answers of a store's pods have a limit together, and long texts are cut.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qss_client.http.bounded import read_bounded
from qss_core.errors import StoreError
from qss_core.model import PodName
from qss_core.quantities import shown_bytes
from qss_core.version import MESSAGE_VERSION
from qss_core.wire.messages import Problem, decode, error_of
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.versions import VERSION_1

REPORT_BYTES_MAX = 2 * 1024 * 1024  # 512 partitions, the most that a store has, need some 300 KiB.
STORE_BYTES_MAX = 4 * 1024 * 1024
REFUSAL_BYTES_MAX = 64 * 1024
TEXT_CHARS_MAX = 500

Grow = Callable[[int], None]  # Told the size of each part of an answer; raises PodAnswerError.


class PodAnswerError(StoreError):
    """A pod sent an answer that no store pod sends."""


class AnswerSizes:
    """Counts the bytes of answers from the pods of one store: the memory of one round.

    These are the answers that are being read, and the newest one of each pod. A request may outlast
    many rounds, each of which asks the other pods again: their older answers count no more.
    """

    def __init__(self) -> None:
        self._reading: dict[object, int] = {}  # By request.
        self._newest: dict[PodName, int] = {}

    @contextmanager
    def asking(self, pod: PodName) -> Iterator[Grow]:
        """Counts the block as a request to a pod; the yielded function counts bytes of its answer.

        That function raises PodAnswerError where the pods of the store answer too much together.
        """
        request = object()
        self._reading[request] = 0
        self._newest.pop(pod, None)

        def grow(size: int) -> None:
            self._reading[request] += size
            if sum(self._reading.values()) + sum(self._newest.values()) > STORE_BYTES_MAX:
                most = shown_bytes(STORE_BYTES_MAX)
                raise PodAnswerError(f"the store's pods answer with more than {most} together")

        try:
            yield grow
            self._newest[pod] = self._reading[request]
        finally:
            del self._reading[request]
            if not self._reading:
                self._newest.clear()


async def read_answer(
    status: int, packing: str | None, parts: AsyncIterator[bytes], grow: Grow
) -> bytes:
    """The whole body; raises PodAnswerError where it has a Content-Encoding or is too long."""
    if packing is not None:
        told = short(packing)
        raise PodAnswerError(f"its answer has the Content-Encoding {told!r}: store pods use none")
    most = REPORT_BYTES_MAX if status == 200 else REFUSAL_BYTES_MAX

    def too_large() -> PodAnswerError:
        return PodAnswerError(f"its answer is longer than {shown_bytes(most)}")

    return await read_bounded(parts, most, too_large, grow)


def report_of(answer: bytes) -> ReplicasReport:
    """Decodes the body of a report and cuts its texts; raises PodAnswerError."""
    try:
        report: ReplicasReport = _cut(decode(answer, ReplicasReport))
    except StoreError as error:
        raise PodAnswerError(f"its answer is no report: {short(error.message)}") from None
    return report


def with_version(report: ReplicasReport, version: int) -> ReplicasReport:
    """The report with the version of the pod's messages.

    Programs between the versions 1 and 2 name none, have standbys, and say which replicas answer.
    """
    if version == VERSION_1 and any(one.answers for one in report.replicas):
        version = MESSAGE_VERSION
    return replace(report, message_version=version)


def refusal_of(answer: bytes) -> StoreError | None:
    """The error in a body, its text cut; None where the body is no problem document."""
    try:
        error = error_of(decode(answer, Problem))
    except StoreError:
        return None
    error.message = short(error.message)
    error.details = {}
    return error


def short(text: str) -> str:
    """The text of a pod, cut to the length that logs and the status show."""
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}..."


def _cut(value: Any) -> Any:
    """The same value with short texts; the very same object where nothing is too long."""
    if isinstance(value, str):
        return short(value)
    if isinstance(value, tuple):
        parts = tuple(_cut(part) for part in value)
        return value if all(map(_is_same, parts, value)) else parts
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: new for name, old in fields.items() if (new := _cut(old)) is not old}
        return replace(value, **changed) if changed else value
    return value


def _is_same(one: object, other: object) -> bool:
    return one is other
