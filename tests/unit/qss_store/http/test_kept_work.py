"""Work that outlives the request that asked for it."""

import asyncio

import pytest
from aiohttp import web

from qss_core.errors import OverloadedError
from qss_store.http.internal import kept_work
from qss_store.http.internal.kept_work import KeptWork


async def wait_for(event: asyncio.Event) -> str:
    await event.wait()
    return "done"


async def test_a_cancelled_caller_leaves_the_work_which_the_end_of_the_pod_waits_for() -> None:
    kept, event, ended = KeptWork(), asyncio.Event(), list[str]()

    async def work() -> None:
        ended.append(await wait_for(event))

    caller = asyncio.create_task(kept.finish(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    asyncio.get_running_loop().call_soon(event.set)
    await kept.end(web.Application())
    assert ended == ["done"]


async def test_work_that_hangs_is_bounded_and_ends_with_the_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_work, "_AT_ONCE_MAX", 2)
    monkeypatch.setattr(kept_work, "_END_MAX_S", 0.0)
    kept, never = KeptWork(), asyncio.Event()
    hanging = [asyncio.create_task(kept.finish(wait_for(never))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="2 earlier requests"):
        await kept.finish(wait_for(never))
    await kept.end(web.Application())
    assert await asyncio.gather(*hanging, return_exceptions=True)
    assert all(one.cancelled() for one in hanging)
    never.set()
    assert await kept.finish(wait_for(never)) == "done", "there is room again"
