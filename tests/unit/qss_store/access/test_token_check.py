"""The guard in virtual time; the test delays, stops and changes the API server."""

import asyncio
from contextlib import suppress

import pytest

from qss_core.errors import AccessUnknownError, ForbiddenError, StoreError, UnauthenticatedError
from qss_store.access.review_limits import OF_STRANGERS_MAX
from qss_store.access.token_check import Guard
from qss_store.runtime.settings import Settings
from qss_testing.guarded_stories import APP, OWN, READ, WRITE, Server, admit, play


def test_a_token_is_reviewed_once_and_then_known() -> None:
    async def story(guard: Guard, server: Server) -> None:
        for _ in range(3):
            await admit(guard, APP, READ)
        assert server.asked == ["app", "query"]
        with pytest.raises(ForbiddenError, match="app may not update"):
            await admit(guard, APP, WRITE)
        assert server.asked == ["app", "query", "write"]

    metrics = play(story)
    assert 'qss_access_cache_hits_total{state="fresh"} 2.0' in metrics
    assert 'qss_access_reviews_total{result="allowed",review="token"} 1.0' in metrics
    assert 'qss_access_reviews_total{result="denied",review="write"} 1.0' in metrics
    assert "qss_access_tokens 1.0" in metrics


def test_those_who_wait_for_the_same_answer_wait_for_one_review() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await asyncio.gather(*(admit(guard, APP, READ) for _ in range(50)))
        assert server.asked == ["app", "query"]

    play(story)


def test_who_asked_first_may_go_away_and_the_others_get_the_answer() -> None:
    async def story(guard: Guard, server: Server) -> None:
        first, second = (asyncio.create_task(admit(guard, APP, READ)) for _ in range(2))
        await asyncio.sleep(0.05)
        first.cancel()
        await second
        assert server.asked == ["app", "query"]

    play(story)


def test_a_token_in_use_is_renewed_and_nobody_waits_for_it() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        loop = asyncio.get_running_loop()
        for _ in range(30):
            await asyncio.sleep(10)
            before = loop.time()
            await admit(guard, APP, READ)
            assert loop.time() == before
        assert 10 < len(server.asked) < 16

    play(story)


def test_a_right_that_was_taken_away_is_gone_within_a_minute() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        server.allowed.clear()
        await asyncio.sleep(61)
        with pytest.raises(ForbiddenError):
            await admit(guard, APP, READ)
        server.allowed.add("query")
        await asyncio.sleep(11)
        await admit(guard, APP, READ)
        server.accounts.clear()
        await asyncio.sleep(61)
        with pytest.raises(UnauthenticatedError):
            await admit(guard, APP, READ)

    play(story)


def test_while_nobody_answers_the_known_go_on_without_waiting() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        server.is_away, server.takes_s = True, 4.0
        loop = asyncio.get_running_loop()
        longest_s = 0.0
        while loop.time() < 600:
            await asyncio.sleep(1)
            before = loop.time()
            await admit(guard, APP, READ)
            longest_s = max(longest_s, loop.time() - before)
        assert longest_s == 0
        server.is_away, server.takes_s = False, 0.1
        await asyncio.sleep(6)
        await admit(guard, APP, READ)
        await asyncio.sleep(1)
        server.asked.clear()
        for _ in range(5):
            await admit(guard, APP, READ)
        assert server.asked == []

    assert 'state="stale"' in play(story)


def test_while_nobody_answers_the_known_go_on_for_ten_minutes_and_no_longer() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        server.is_away = True
        await asyncio.sleep(650)
        await admit(guard, APP, READ)
        await asyncio.sleep(20)
        with pytest.raises(AccessUnknownError):
            await admit(guard, APP, READ)

    play(story)


def test_while_the_api_server_starts_again_failed_reviews_refuse_nobody() -> None:
    """An API server that starts can review tokens before it has read roles."""

    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        server.is_away = True
        for _ in range(120):
            await asyncio.sleep(1)
            await admit(guard, APP, READ)
        server.is_away, server.fails = False, {"query"}
        for _ in range(20):
            await asyncio.sleep(0.5)
            await admit(guard, APP, READ)
        assert server.asked.count("app") > 2, "the token was reviewed again"
        await asyncio.sleep(60)
        with pytest.raises(AccessUnknownError):
            await admit(guard, APP, READ)

    play(story)


def test_while_nobody_answers_the_unknown_are_told_to_come_again() -> None:
    async def story(guard: Guard, server: Server) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(AccessUnknownError) as told:
            await admit(guard, APP, READ)
        assert told.value.retry_after_ms
        # The next requests do not wait, and cause no review.
        before = loop.time()
        with pytest.raises(AccessUnknownError):
            await admit(guard, "Bearer other", READ)
        assert loop.time() == before
        assert server.asked == ["app"]
        server.is_away = False
        await asyncio.sleep(1.1)
        await admit(guard, APP, READ)

    assert 'result="failed",review="token"' in play(story, Server(is_away=True))


def test_a_flood_of_unknown_tokens_is_bounded_and_does_not_stop_the_known() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        await asyncio.sleep(50)
        server.takes_s = 3.0
        flood = [
            asyncio.create_task(admit(guard, f"Bearer x{n}", READ, f"b{n % 100}"))
            for n in range(1000)
        ]
        await asyncio.sleep(0)
        await admit(guard, APP, READ)
        answers = await asyncio.gather(*flood, return_exceptions=True)
        kinds = {type(answer) for answer in answers}
        assert kinds == {UnauthenticatedError, AccessUnknownError}
        assert len(server.asked) == 2 + OF_STRANGERS_MAX + 2
        await asyncio.sleep(5)
        await admit(guard, APP, READ)

    play(story, settings=Settings(access_tokens_max=10))


def test_while_strangers_flood_new_tokens_of_good_addresses_are_asked_for() -> None:
    async def story(guard: Guard, server: Server) -> None:
        server.accounts.add("newer")
        await admit(guard, APP, READ, "good")
        server.takes_s = 3.0
        flood = [
            asyncio.create_task(admit(guard, f"Bearer x{n}", READ, f"b{n % 100}"))
            for n in range(1000)
        ]
        await asyncio.sleep(0)
        await admit(guard, "Bearer newer", READ, "good")
        await asyncio.gather(*flood, return_exceptions=True)

    play(story)


@pytest.mark.parametrize("header", ["bEaReR app", "Bearer    app", "BEARER app  "])
def test_a_token_is_known_however_its_header_is_spelled(header: str) -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        await admit(guard, header, READ)
        assert server.asked == ["app", "query"]

    play(story)


def test_one_token_whose_review_fails_lets_no_revoked_token_go_on() -> None:
    async def story(guard: Guard, server: Server) -> None:
        await admit(guard, APP, READ)
        server.accounts.clear()  # The token is revoked.
        server.fails = {"garbage", "app"}
        await asyncio.sleep(50)
        for _ in range(30):
            await asyncio.sleep(1)
            for header in ("Bearer garbage", APP):
                with suppress(AccessUnknownError):
                    await admit(guard, header, READ)
        with pytest.raises(AccessUnknownError):
            await admit(guard, APP, READ)
        server.fails.remove("app")
        await asyncio.sleep(2)
        with pytest.raises(UnauthenticatedError):
            await admit(guard, APP, READ)

    play(story)


def test_a_review_that_fails_is_not_asked_for_again_at_once() -> None:
    async def story(guard: Guard, server: Server) -> None:
        server.fails = {"app"}
        for _ in range(5):
            with pytest.raises(AccessUnknownError):
                await admit(guard, APP, READ)
        assert server.asked == ["app"]

    play(story)


@pytest.mark.parametrize("names", [{"app"}, {"app", "two", "three"}])
def test_reviews_that_fail_as_that_of_the_pods_own_token_does_mean_that_nobody_answers(
    names: set[str],
) -> None:
    async def story(guard: Guard, server: Server) -> None:
        server.accounts = names.copy()
        for name in names:
            await admit(guard, f"Bearer {name}", READ)
        server.fails = {*names, OWN, "query"}
        for _ in range(10):
            await asyncio.sleep(50)
            for name in names:
                await admit(guard, f"Bearer {name}", READ)
        assert server.asked.count(OWN) < 20, "it is probed no more while nobody answers"
        server.fails = set()
        server.accounts.clear()
        await asyncio.sleep(2)
        with suppress(AccessUnknownError, UnauthenticatedError):
            await admit(guard, APP, READ)
        await asyncio.sleep(2)
        with pytest.raises(UnauthenticatedError):
            await admit(guard, APP, READ)

    assert 'state="stale"' in play(story)


def test_forgotten_tokens_are_asked_for_again() -> None:
    async def story(guard: Guard, server: Server) -> None:
        server.accounts = {f"app{number}" for number in range(5)}
        for _ in range(2):
            for number in range(5):
                await admit(guard, f"Bearer app{number}", READ)
        assert len(server.asked) == 20

    assert "qss_access_tokens 2.0" in play(story, settings=Settings(access_tokens_max=2))


def test_no_error_quotes_a_token() -> None:
    async def story(guard: Guard, server: Server) -> None:
        for header in ("Bearer s3cret", "s3cret", "Bearer s3cret s3cret"):
            with pytest.raises(StoreError) as told:
                await admit(guard, header, READ)
            assert "s3cret" not in str(told.value)

    assert "s3cret" not in play(story)
