"""What became of the entries that a request appended: one wait for all of them.

A request reaches many partitions of a pod, and each small batch pays for every task and timer a
partition: so entries are appended at once, without tasks, and awaited together.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from qss_core.errors import BatchInProgressError
from qss_store.replicas.replica import Replica
from qss_store.replicas.views.decoded_rows import Batches
from qss_store.transactions.commands import Command
from qss_store.transactions.machine import Outcome

APPLY_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class AppendWait:
    """What a replica does for a request."""

    replica: Replica
    work: "asyncio.Future[Outcome] | asyncio.Task[None]"

    def result(self) -> Outcome | None:
        """What it did, after `settle`; raises the failure that it met, or what stops the replica.

        BatchInProgressError where it still goes on.
        """
        if self.work.done():
            outcome = self.work.result()
            if outcome is not None and outcome.failure:
                raise outcome.failure
            return outcome
        if self.replica.failure:
            raise self.replica.failure
        raise BatchInProgressError(
            f"partition {self.replica.partition} is still applying: ask again"
        )


def append(
    replica: Replica,
    command: Command,
    payload: bytes | memoryview = b"",
    decoded: Batches = (),
) -> AppendWait:
    """Appends an entry; the same parameters and errors as `Replica.append`."""
    return AppendWait(replica, replica.append(command, payload, decoded))


async def settle(awaited: Iterable[AppendWait]) -> None:
    """Waits until all are done, at most `APPLY_TIMEOUT_S`; what was appended goes on anyway."""
    works = [one.work for one in awaited]
    if not works:
        return
    try:
        await asyncio.wait(works, timeout=APPLY_TIMEOUT_S)
    finally:
        for work in works:
            if isinstance(work, asyncio.Task):  # It only looks; an entry's outcome is not ours.
                work.cancel()


async def outcome_of(
    replica: Replica, command: Command, payload: bytes | memoryview = b""
) -> Outcome:
    """Appends an entry and waits until it was applied; raises the failure that it met there."""
    awaited = append(replica, command, payload)
    await settle([awaited])
    outcome = awaited.result()
    assert outcome is not None, "an entry has an outcome"
    return outcome
