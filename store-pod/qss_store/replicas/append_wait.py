"""Appends the entries of a request, and waits for all of their outcomes together.

A request appends to many partitions of a pod. A task and a timer for each partition would slow down
small batches: so all entries are appended first, and awaited together.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from qss_core.errors import BatchInProgressError
from qss_store.replicas.replica import Replica
from qss_store.replicas.views.decoded_rows import RecordBatches
from qss_store.transactions.commands import Command
from qss_store.transactions.machine import Outcome

APPLY_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class AppendWait:
    """The work of one replica for a request."""

    replica: Replica
    work: "asyncio.Future[Outcome] | asyncio.Task[None]"

    def result(self) -> Outcome | None:
        """The outcome, after `settle`; raises the failure of the entry or of the replica.

        Raises BatchInProgressError where the entry is not applied yet.
        """
        if self.work.done():
            outcome = self.work.result()
            if outcome is not None and outcome.failure:
                raise outcome.failure
            return outcome
        if refusal := self.replica.refusal:
            raise refusal
        raise BatchInProgressError(
            f"partition {self.replica.partition} is still applying the entry: try again"
        )


def append(
    replica: Replica,
    command: Command,
    payload: bytes | memoryview = b"",
    decoded: RecordBatches = (),
) -> AppendWait:
    """Appends an entry; the same parameters and errors as `Replica.append`."""
    return AppendWait(replica, replica.append(command, payload, decoded))


async def settle(awaited: Iterable[AppendWait]) -> None:
    """Waits until all are done, at most `APPLY_TIMEOUT_S`; late entries are applied anyway."""
    works = [one.work for one in awaited]
    if not works:
        return
    try:
        await asyncio.wait(works, timeout=APPLY_TIMEOUT_S)
    finally:
        for work in works:
            if isinstance(work, asyncio.Task):  # The future of an entry belongs to its log.
                work.cancel()


async def outcome_of(
    replica: Replica, command: Command, payload: bytes | memoryview = b""
) -> Outcome:
    """Appends an entry and waits until it is applied; raises as `AppendWait.result`."""
    awaited = append(replica, command, payload)
    await settle([awaited])
    outcome = awaited.result()
    assert outcome is not None, "an entry has an outcome"
    return outcome
