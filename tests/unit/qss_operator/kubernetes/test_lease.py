"""The lease's loop in virtual time: several candidates, and a server that is slow or fails."""

import asyncio
import random  # noqa: TID251 seeded, and the seed is in the test's name.
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from qss_core.errors import StoreError
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.api.errors import (
    AlreadyExistsError,
    ApiUnavailableError,
    ForbiddenError,
    NotFoundError,
)
from qss_operator.kubernetes.api.kinds import Kind
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.leadership.lease import Leadership
from qss_operator.kubernetes.leadership.lease_rules import LeaseSettings
from qss_testing.fakes.toy_objects import Place, RefusalError, ToyObjects
from qss_testing.fakes.virtual_time import LoopClock, run_in_virtual_time

pytestmark = pytest.mark.long

PLACE = Place("coordination.k8s.io", "qss", "leases", "operator", None)
ERRORS: dict[str, type[StoreError]] = {
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
}
Travel = Callable[[], Coroutine[Any, Any, None]]


async def at_once() -> None:
    """Answers each request without a delay."""


@dataclass
class Leases:
    """A server's leases for one client; `there` and `back` delay or lose messages."""

    objects: ToyObjects = field(default_factory=ToyObjects)
    there: Travel = at_once
    back: Travel = at_once

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        try:
            return await self._ask(lambda: self.objects.get(PLACE))
        except NotFoundError:
            return None

    async def create(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        return await self._ask(lambda: self.objects.create(PLACE, body))

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Object) -> Object:
        return await self._ask(lambda: self.objects.replace(PLACE, body))

    async def _ask(self, act: Callable[[], Object]) -> Object:
        await self.there()
        try:
            answer = act()
        except RefusalError as refusal:
            error = ERRORS.get(str(refusal.document["reason"]), ConflictError)
            raise error(str(refusal)) from refusal
        finally:
            await self.back()
        return answer

    @property
    def spec(self) -> Object:
        spec: Object = self.objects.get(PLACE)["spec"]
        return spec


def leadership(api: Leases, identity: str, lost: list[str], skew_h: int = 0) -> Leadership:
    return Leadership(
        api,
        LeaseSettings(namespace="qss", name="operator", identity=identity),
        clock=LoopClock(skew=timedelta(hours=skew_h)),
        sleep=asyncio.sleep,
        chance=lambda: 0.5,
        on_lost=lost.append,
    )


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def never() -> None:
    await asyncio.Event().wait()


async def refused() -> None:
    raise ApiUnavailableError("away")


def test_a_holder_that_died_is_followed_after_the_leases_duration() -> None:
    async def story() -> None:
        api, lost = Leases(), list[str]()
        await leadership(api, "one", lost).acquire()
        # A clock that is wrong by hours changes nothing.
        second = leadership(api, "two", lost, skew_h=-7)
        await second.acquire()
        assert 15.0 <= now_s() <= 15.0 + 2.4
        assert api.spec["leaseTransitions"] == 1

    run_in_virtual_time(story())


def test_a_holder_that_renews_is_never_followed() -> None:
    async def story() -> None:
        api, lost = Leases(), list[str]()
        first, second = leadership(api, "one", lost), leadership(api, "two", lost)
        async with first.held():
            waiting = asyncio.create_task(second.acquire())
            await asyncio.sleep(3600)
            assert first.is_held
            assert not waiting.done()
        await waiting
        assert now_s() - 3600 <= 2.4
        assert (second.is_held, first.is_held, lost) == (True, False, [])

    run_in_virtual_time(story())


@pytest.mark.parametrize("way", [never, refused])
def test_a_lease_that_cannot_be_renewed_is_lost_at_its_deadline(way: Travel) -> None:
    async def story() -> None:
        api, lost = Leases(), list[str]()
        first = leadership(api, "one", lost)
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        await asyncio.sleep(21)
        assert first.held_until_s == pytest.approx(30.0)
        api.there = way
        await holding
        assert now_s() == pytest.approx(30.0)
        assert lost == ["was not renewed in time"]

    run_in_virtual_time(story())


def test_a_short_outage_is_survived() -> None:
    async def story() -> None:
        api, lost = Leases(), list[str]()
        first = leadership(api, "one", lost)
        async with first.held():
            await asyncio.sleep(3)
            api.there = never
            await asyncio.sleep(7)
            api.there = at_once
            await asyncio.sleep(60)
            assert first.is_held
        assert lost == []

    run_in_virtual_time(story())


def test_a_renewal_whose_answer_was_lost_is_no_loss() -> None:
    async def story() -> None:
        api, lost = Leases(), list[str]()
        first = leadership(api, "one", lost)
        async with first.held():
            await asyncio.sleep(3)
            api.back = refused
            await asyncio.sleep(2)
            api.back = at_once
            await asyncio.sleep(60)
            assert first.is_held
        assert (lost, api.spec["holderIdentity"]) == ([], "")

    run_in_virtual_time(story())


def test_a_lease_that_was_made_without_an_answer_is_ones_own() -> None:
    async def story() -> None:
        api, lost = Leases(), list[str]()
        first = leadership(api, "one", lost)
        api.back = never
        waiting = asyncio.create_task(first.acquire())
        await asyncio.sleep(1)
        api.back = at_once
        await waiting
        assert api.spec["leaseTransitions"] == 0

    run_in_virtual_time(story())


def test_a_lease_that_another_took_or_deleted_is_lost_at_once() -> None:
    async def story(harm: Callable[[Leases], object], word: str) -> None:
        api, lost = Leases(), list[str]()
        first = leadership(api, "one", lost)
        await first.acquire()
        harm(api)
        await first.hold()
        assert now_s() <= 2.0
        assert [word in one for one in lost] == [True]
        assert not first.is_held

    def take(api: Leases) -> None:
        api.objects.patch(PLACE, {"spec": {"holderIdentity": "thief"}})

    run_in_virtual_time(story(take, "thief"))
    run_in_virtual_time(story(lambda api: api.objects.delete(PLACE, {}), "deleted"))


def test_a_missing_permission_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def forbidden() -> None:
        raise ForbiddenError("may not get leases")

    async def story() -> None:
        api = Leases(there=forbidden)
        async with asyncio.timeout(60):
            await leadership(api, "one", []).acquire()

    with pytest.raises(TimeoutError):
        run_in_virtual_time(story())
    assert [record.getMessage() for record in caplog.records].count(
        "the API server gave no answer about the lease: FORBIDDEN: may not get leases"
    ) == 1


def test_a_release_that_fails_is_not_the_callers_failure() -> None:
    async def story() -> None:
        api = Leases()
        first = leadership(api, "one", [])
        await first.acquire()
        api.there = never
        await first.release()
        assert now_s() <= 4.0
        assert not first.is_held

    run_in_virtual_time(story())


@pytest.mark.parametrize("seed", range(25))
def test_two_never_hold_the_lease_at_once(seed: int) -> None:
    """Requests are delayed, lost on either way, or arrive after their sender gave up."""
    dice = random.Random(seed)
    objects = ToyObjects()
    holders: list[Leadership] = []
    reigns: list[str] = []

    async def way() -> None:
        fate = dice.random()
        if fate < 0.1:
            raise ApiUnavailableError("lost on the way")
        await asyncio.sleep(30.0 if fate < 0.2 else dice.expovariate(1.0))

    def check() -> None:
        held = [one for one in holders if one.is_held]
        assert len(held) <= 1, f"second {now_s()}"

    async def live(identity: str) -> None:
        while True:
            # Each try stands for a new process.
            own = leadership(Leases(objects, way, way), f"{identity}-{len(holders)}", [])
            holders.append(own)
            await own.acquire()
            check()
            reigns.append(identity)
            with_end = asyncio.create_task(own.hold())
            await asyncio.wait([with_end], timeout=dice.expovariate(1 / 60))
            with_end.cancel()
            if dice.random() < 0.5:
                await own.release()

    async def story() -> None:
        lives = [asyncio.create_task(live(identity)) for identity in "abc"]
        for _ in range(1800):
            await asyncio.sleep(1)
            check()
            # A candidate that failed would no longer compete.
            assert not any(life.done() for life in lives), [str(life) for life in lives]
        for life in lives:
            life.cancel()

    run_in_virtual_time(story())
    assert len(reigns) > 5
