"""The read cache reads an object again after a change, and at no other time."""

from collections.abc import Callable

from qss_operator.kubernetes.api.kinds import PODS, STORES, Kind
from qss_operator.kubernetes.api.read_cache import TRUST_S, ReadCache
from qss_operator.kubernetes.api.requests import Object
from qss_testing.fakes.virtual_time import SetClock


class Server:
    """Objects that the test sets; counts the requests."""

    def __init__(self) -> None:
        self.store: Object | None = named("words", "1")
        self.pods = [named("words-0", "5")]
        self.asked: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        self.asked.append(f"{kind.plural}/{name}")
        self.meanwhile()
        return self.store

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str | None = None
    ) -> list[Object]:
        self.asked.append(f"{kind.plural}?{label_selector}")
        answer = list(self.pods)
        self.meanwhile()
        return answer


def named(name: str, version: str) -> Object:
    return {"metadata": {"name": name, "resourceVersion": version}}


def make() -> tuple[Server, ReadCache, SetClock]:
    server, clock = Server(), SetClock(0.0)
    cache = ReadCache(server, "shop", "words", "of=words", clock=clock)
    return server, cache, clock


async def test_what_did_not_change_is_asked_for_once() -> None:
    server, cache, _ = make()
    for _ in range(3):
        assert await cache.store() == server.store
        assert list(await cache.children(PODS)) == ["words-0"]
    assert server.asked == ["queryablestatestores/words", "pods?of=words"]


async def test_news_of_a_watch_makes_the_answer_old_for_its_kind_alone() -> None:
    server, cache, _ = make()
    await cache.store()
    await cache.children(PODS)
    server.pods = [named("words-0", "6")]
    assert cache.changed(PODS, "words-0", "6")
    assert (await cache.children(PODS))["words-0"] == named("words-0", "6")
    await cache.store()
    assert server.asked.count("queryablestatestores/words") == 1


async def test_a_version_that_was_read_already_is_no_news() -> None:
    server, cache, _ = make()
    await cache.children(PODS)
    assert not cache.changed(PODS, "words-0", "5")
    assert not cache.changed(PODS, "words-7", None), "it was not there before either"
    assert cache.changed(PODS, "words-0", None)
    await cache.children(PODS)
    assert len(server.asked) == 2


async def test_news_that_comes_during_a_read_is_not_lost() -> None:
    server, cache, _ = make()
    server.meanwhile = lambda: cache.changed(PODS, "words-1", "9")
    await cache.children(PODS)
    server.meanwhile = lambda: None
    server.pods.append(named("words-1", "9"))
    assert list(await cache.children(PODS)) == ["words-0", "words-1"]


async def test_our_own_writes_are_known_without_a_read() -> None:
    server, cache, _ = make()
    await cache.store()
    cache.written(STORES, named("words", "2"))
    assert await cache.store() == named("words", "2")
    assert not cache.changed(STORES, "words", "2"), "the watch brings back our own write"
    assert len(server.asked) == 1


async def test_an_answer_is_trusted_longer_each_time_that_it_is_found_unchanged() -> None:
    server, cache, clock = make()
    read_at_s = list[int]()
    for now in range(3000):
        clock.now_s, before = float(now), len(server.asked)
        await cache.children(PODS)
        if len(server.asked) > before:
            read_at_s.append(now)
    assert read_at_s == [0, 11, 42, 133, 404, 1005, 1606, 2207, 2808]


async def test_a_pod_that_went_before_the_watch_began_is_found_gone_soon() -> None:
    server, cache, clock = make()
    await cache.children(PODS)
    server.pods = []  # The watch began after the pod was deleted, so it reports nothing about it.
    clock.now_s = TRUST_S
    assert await cache.children(PODS)
    clock.now_s = TRUST_S + 0.1
    assert await cache.children(PODS) == {}


async def test_a_deleted_store_is_none() -> None:
    server, cache, _ = make()
    server.store = None
    assert await cache.store() is None


async def test_a_change_that_no_watch_reported_is_counted_unless_the_watch_may_be_younger() -> None:
    server, clock, missed = Server(), SetClock(0.0), list[str]()
    cache = ReadCache(server, "shop", "words", "of=words", clock=clock, on_missed=missed.append)
    await cache.children(PODS)
    server.pods = [named("words-0", "6")]
    for clock.now_s in (20.0, 40.0):
        await cache.children(PODS)
    assert missed == [], "the first answer may be older than the watch; the second is unchanged"
    server.pods = [named("words-0", "7")]
    clock.now_s = 100.0
    await cache.children(PODS)
    assert missed == ["pods"]
