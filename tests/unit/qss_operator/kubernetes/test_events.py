"""Repeated events are counted and bounded, and a failed event stops nothing else."""

import asyncio
import logging
from dataclasses import dataclass, field
from itertools import count

import pytest

from qss_core.errors import StoreError
from qss_operator.kubernetes.api.errors import ForbiddenError, NotFoundError
from qss_operator.kubernetes.api.kinds import STORES, Kind
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.events.event_limits import (
    EventLimits,
    EventMemory,
    EventType,
    Happening,
    Subject,
    bounded,
)
from qss_operator.kubernetes.events.poster import Events
from qss_testing.fakes.virtual_time import LoopClock, run_in_virtual_time

WORDS = Subject(kind=STORES, namespace="shop", name="words", uid="u1")
OTHER = Subject(kind=STORES, namespace="n", name="w", uid="u2")
NORMAL = EventType.NORMAL


@dataclass
class EventServer:
    """Records the requests; `error` is the answer to all of them."""

    created: list[Object] = field(default_factory=list)
    patched: list[tuple[str, Object]] = field(default_factory=list)
    error: StoreError | None = None
    patch_error: StoreError | None = None

    async def create(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        if self.error is not None:
            raise self.error
        assert namespace == body["metadata"]["namespace"] == body["involvedObject"]["namespace"]
        self.created.append(body)
        return body

    async def merge_patch(
        self, kind: Kind, namespace: str | None, name: str, patch: Object
    ) -> Object:
        if error := self.error or self.patch_error:
            raise error
        self.patched.append((name, patch))
        return patch


def events_of(server: EventServer, limits: EventLimits | None = None) -> Events:
    numbers = count()
    return Events(
        server,
        reporter="operator-0",
        clock=LoopClock(),
        token=lambda: f"t{next(numbers)}",
        limits=limits,
    )


async def post(events: Events, reason: str, message: str, subject: Subject = WORDS) -> None:
    events.post(subject, NORMAL, reason, message)
    running = asyncio.create_task(events.run())
    await events.drain()
    running.cancel()


def test_an_event_says_what_people_look_for() -> None:
    async def story() -> None:
        server = EventServer()
        await post(events_of(server), "PodRestarted", "words-0 was restarted")
        assert server.created == [
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "words.t0", "namespace": "shop"},
                "involvedObject": {
                    "apiVersion": "queryablestate.dev/v1alpha1",
                    "kind": "QueryableStateStore",
                    "namespace": "shop",
                    "name": "words",
                    "uid": "u1",
                },
                "type": "Normal",
                "reason": "PodRestarted",
                "message": "words-0 was restarted",
                "source": {"component": "queryablestate-operator"},
                "reportingComponent": "queryablestate-operator",
                "reportingInstance": "operator-0",
                "firstTimestamp": "2026-11-21T00:00:00Z",
                "lastTimestamp": "2026-11-21T00:00:00Z",
                "count": 1,
            }
        ]

    run_in_virtual_time(story())


def test_the_same_event_is_counted_for_ten_minutes() -> None:
    async def story() -> None:
        server = EventServer()
        events = events_of(server)
        await post(events, "PodsStarting", "a")
        await asyncio.sleep(60)
        await post(events, "PodsStarting", "a")
        await post(events, "PodsStarting", "b")
        await post(
            events, "PodsStarting", "a", Subject(kind=STORES, namespace="n", name="w", uid="u2")
        )
        patch = {"count": 2, "lastTimestamp": "2026-11-21T00:01:00Z", "message": "a"}
        assert server.patched == [("words.t0", patch)]
        assert len(server.created) == 3
        await asyncio.sleep(601)
        await post(events, "PodsStarting", "a")
        assert len(server.created) == 4

    run_in_virtual_time(story())


def test_an_event_that_the_server_forgot_is_made_anew() -> None:
    async def story() -> None:
        server = EventServer(patch_error=NotFoundError("gone"))
        events = events_of(server)
        await post(events, "PodsStarting", "a")
        await post(events, "PodsStarting", "a")
        assert [one["metadata"]["name"] for one in server.created] == ["words.t0", "words.t1"]

    run_in_virtual_time(story())


def test_a_store_may_have_so_many_events_a_minute_and_repetitions_are_still_counted() -> None:
    async def story() -> None:
        server = EventServer()
        events = events_of(server, EventLimits(a_minute=6))
        for number in range(6):
            await post(events, "PodsStarting", str(number))
        for _ in range(5):
            await post(events, "PodsStarting", "0")
        await post(events, "PodsStarting", "one too many")
        assert (len(server.created), server.patched) == (6, [])
        await asyncio.sleep(60)
        await post(events, "PodsStarting", "0")
        assert [patch["count"] for _, patch in server.patched] == [7]
        # Another store counts its own events.
        await post(
            events, "PodsStarting", "0", Subject(kind=STORES, namespace="n", name="w", uid="u2")
        )
        assert len(server.created) == 7

    run_in_virtual_time(story())


def test_the_newest_event_of_a_chapter_is_posted_when_its_store_may_post_again() -> None:
    async def story() -> None:
        server = EventServer()
        events = events_of(server, EventLimits(a_minute=2))
        running = asyncio.create_task(events.run())
        for number in range(5):
            events.post(WORDS, NORMAL, "MoveDone", f"{number} are done", "MoveDone-1")
            await events.drain()
        assert [one["message"] for one in server.created] == ["0 are done"]
        assert [patch["message"] for _, patch in server.patched] == ["1 are done"]
        await asyncio.sleep(61)
        running.cancel()
        assert [patch["message"] for _, patch in server.patched] == ["1 are done", "4 are done"]
        assert server.patched[-1][1]["count"] == 5

    run_in_virtual_time(story())


def test_the_newest_event_of_a_chapter_is_kept_also_where_no_more_chapters_are() -> None:
    async def story() -> None:
        server = EventServer()
        events = events_of(server, EventLimits(a_minute=1))
        running = asyncio.create_task(events.run())
        stores = [
            Subject(kind=STORES, namespace="shop", name="words", uid=f"u{number}")
            for number in range(300)
        ]
        for message in ("begun", "going on"):
            for store in stores:
                events.post(store, NORMAL, "MoveDone", message, "MoveDone-1")
                await events.drain()
        events.post(stores[0], NORMAL, "MoveDone", "over", "MoveDone-1")
        await events.drain()
        await asyncio.sleep(61)
        running.cancel()
        assert server.patched[0][1]["message"] == "over"
        assert len(server.patched) == 256

    run_in_virtual_time(story())


def test_a_failure_is_logged_once_until_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        server = EventServer(error=ForbiddenError("may not create events"))
        events = events_of(server)
        await post(events, "PodsStarting", "a")
        await post(events, "PodsStarting", "b")
        server.error = None
        await post(events, "PodsStarting", "c")
        server.error = ForbiddenError("may not create events")
        await post(events, "PodsStarting", "d")
        # An event that was never created is not counted up.
        server.error = None
        await post(events, "PodsStarting", "a")
        assert len(server.created) == 2

    run_in_virtual_time(story())
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 2


def test_a_flood_has_bounded_memory() -> None:
    async def story() -> None:
        server = EventServer()
        events = events_of(server, EventLimits(a_minute=1_000_000))
        for number in range(10_000):
            events.post(WORDS, NORMAL, "PodsStarting", str(number))
        running = asyncio.create_task(events.run())
        await events.drain()
        running.cancel()
        assert len(server.created) == 256

    run_in_virtual_time(story())
    memory = EventMemory(EventLimits(remembered_max=10))
    for number in range(100):
        subject = Subject(kind=STORES, namespace="n", name="w", uid=str(number))
        happening = Happening(subject=subject, type=NORMAL, reason="R", message="m")
        assert memory.may_post(subject, 60.0 * (number // 5))
        memory.made(happening, "name", 0.0)
    assert (len(memory.posted), len(memory.of_this_minute)) == (10, 5)


@pytest.mark.parametrize("reason", ["", "pods starting", "podsStarting", "Pods-Starting", "Ä"])
def test_a_reason_is_camel_case(reason: str) -> None:
    with pytest.raises(AssertionError):
        Happening(subject=WORDS, type=NORMAL, reason=reason, message="m")


def test_a_long_message_is_cut_between_characters() -> None:
    assert bounded("x" * 1024) == "x" * 1024
    cut = bounded("ä" * 1000)
    assert len(cut.encode()) <= 1024
    assert cut == "ä" * 510 + "..."


def test_a_long_name_leaves_room_for_the_token() -> None:
    async def story() -> None:
        server = EventServer()
        subject = Subject(kind=STORES, namespace="n", name="w" * 253, uid="u")
        await post(events_of(server), "PodsStarting", "x" * 5000, subject)
        name = server.created[0]["metadata"]["name"]
        assert (len(name), name[-3:]) == (253, ".t0")

    run_in_virtual_time(story())
