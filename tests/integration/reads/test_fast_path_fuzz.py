"""The fast path answers like the ordinary path, whatever a client sends, in whatever pieces.

QSS_FAST_PATH_SEED chooses other requests, QSS_FAST_PATH_SECONDS the time for which they are sent
(by default a few requests, the same in each run), and QSS_FAST_PATH_PLAN begins with a plan that
failed.
"""

import os
import time
from collections.abc import Awaitable, Callable
from random import Random  # noqa: TID251 seeded, and the seed is printed.
from typing import Any

import pytest

from qss_core.model import StoreType
from qss_store.runtime.settings import Settings
from qss_testing.clients.fast_path_fuzz import Server, check
from qss_testing.clients.fast_path_requests import BODY_BYTES_MAX, KEYS, key_of, plan_of
from qss_testing.pods.stores import Cluster, Put, configuration

pytestmark = pytest.mark.long

StartCluster = Callable[..., Awaitable[Cluster]]

SEED = os.environ.get("QSS_FAST_PATH_SEED", "fast path")
SECONDS = float(os.environ.get("QSS_FAST_PATH_SECONDS", "0"))
FIRST = int(os.environ.get("QSS_FAST_PATH_PLAN", "0"))
PLANS = 160
# New rows are written after this many plans, so that remembered answers become old.
_NEW_ROWS = 5
_FAST_PATH_SHARE_MIN = 0.02


async def written(cluster: Cluster, turn: int) -> dict[str, object]:
    """Writes new values; returns all values by their keys."""
    values: dict[str, object] = {key_of(n): {"n": n, "turn": turn} for n in range(KEYS)}
    rows = [
        Put(key.encode(), b'{"n":%d,"turn":%d}' % (n, turn), 1000, start=0)
        for n, key in enumerate(values)
    ]
    await cluster.put(rows, {"in": {"0": turn}})
    return values


@pytest.mark.parametrize("kind", ["stores", "windows"])
async def test_the_fast_path_and_the_ordinary_way_answer_alike(
    start_cluster: StartCluster, kind: str
) -> None:
    members: dict[str, Any] = (
        {"type": StoreType.WINDOW, "retention_ms": 10**12} if kind == "windows" else {}
    )
    limits = Settings(query_body_bytes_max=BODY_BYTES_MAX)
    # Some keys are on the other pod: their requests take longer.
    places = [configuration(partition, int(partition == 3)) for partition in range(4)]
    cluster = await start_cluster(2, configurations=places, settings=limits, **members)
    server = Server(cluster.nodes[0].runner)
    values: dict[str, object] = {}
    started, number, answered = time.monotonic(), FIRST, 0
    while number < FIRST + PLANS or time.monotonic() - started < SECONDS:
        if not values or number % _NEW_ROWS == 0:
            values = await written(cluster, number // _NEW_ROWS)
        random = Random(f"{SEED} {kind} {number}")
        plan = plan_of(random, kind, number)
        try:
            answered += await check(server, plan, random, values)
        except (AssertionError, ValueError) as error:
            again = f"QSS_FAST_PATH_SEED={SEED} QSS_FAST_PATH_PLAN={number}"
            sent = "\n".join(f"  {request}" for request in plan)
            raise AssertionError(f"{again}\n{sent}\n{error}") from error
        number += 1
    took = time.monotonic() - started
    print(  # noqa: T201 shown where it fails, and by `make fuzz`.
        f"{kind}: seed {SEED!r}, {number - FIRST} plans, {answered} answers, "
        f"{sum(cluster.fast_answers)} of the fast path, {answered / took:.0f} a second"
    )
    assert sum(cluster.fast_answers) > answered * _FAST_PATH_SHARE_MIN
