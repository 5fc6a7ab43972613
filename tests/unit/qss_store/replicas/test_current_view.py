"""A read that waits for a state is answered also if the state never comes."""

import asyncio

import pytest

from qss_core.errors import DiskFullError, NotReadyError, StoreError
from qss_core.model import Sequence
from qss_store.replicas.views.current_view import CurrentView


async def test_who_waits_is_told_that_nothing_will_be_shown() -> None:
    shown = CurrentView(lambda: None)
    waiting = asyncio.ensure_future(shown.reaches(Sequence(1)))
    await asyncio.sleep(0)
    shown.close()
    with pytest.raises(NotReadyError, match="try again"):
        await waiting


async def test_who_waits_is_told_why_the_replica_stopped() -> None:
    failures: list[StoreError | None] = [None]
    shown = CurrentView(lambda: failures[0])
    waiting = asyncio.ensure_future(shown.reaches(Sequence(1)))
    await asyncio.sleep(0)
    failures[0] = DiskFullError("full")
    shown.wake()
    with pytest.raises(DiskFullError):
        await waiting
