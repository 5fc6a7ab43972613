"""The end of a token: the API server decides, since the clock of a pod's node may be wrong."""

import asyncio

import pytest

from qss_core.errors import UnauthenticatedError
from qss_store.access.token_check import Guard
from qss_testing.fakes.reviewer import make_token
from qss_testing.guarded_stories import READ, Server, admit, play


def test_an_expired_token_is_refused_after_one_review_for_ten_seconds() -> None:
    async def story(guard: Guard, server: Server) -> None:
        token = make_token("app", expires_in_s=60)
        await asyncio.sleep(61)
        for _ in range(3):
            with pytest.raises(UnauthenticatedError, match="expired"):
                await admit(guard, "Bearer " + token, READ)
        with pytest.raises(UnauthenticatedError, match="not a token"):
            await admit(guard, "Bearer a b", READ)
        assert server.asked == [token]

    play(story)


def test_a_token_is_reviewed_again_at_its_own_end() -> None:
    async def story(guard: Guard, server: Server) -> None:
        token = make_token("app", expires_in_s=30)
        server.accounts = {token}
        await admit(guard, "Bearer " + token, READ)
        server.accounts.clear()
        await asyncio.sleep(31)
        with pytest.raises(UnauthenticatedError, match="expired"):
            await admit(guard, "Bearer " + token, READ)

    play(story)


@pytest.mark.parametrize("ahead_s", [-3600, 3600, 3590])
def test_a_node_whose_clock_is_an_hour_off_takes_the_tokens_that_the_api_server_takes(
    ahead_s: int,
) -> None:
    """Pods show tokens that live for an hour: such a node would follow nobody any more."""

    async def story(guard: Guard, server: Server) -> None:
        token = make_token("app", expires_in_s=3600)
        server.accounts = {token}
        for _ in range(100):
            await admit(guard, "Bearer " + token, READ)
            await asyncio.sleep(1)
        assert len(server.asked) < 9

    play(story, ahead_s=ahead_s)
