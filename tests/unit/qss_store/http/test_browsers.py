"""The hosts and origins that a store without tokens accepts."""

import pytest

from qss_core.errors import ForbiddenError
from qss_store.http.browsers import Callers

OWN = [
    "127.0.0.1:30805",
    "127.0.0.1",
    "[::1]:8080",
    "10.1.2.3:8080",
    "localhost:1",
    "LOCALHOST",
    "a.localhost:1",
    "words-0.words.shop.svc:8081",
    "words.shop.svc.cluster.local",
    "words.shop.svc.cluster.local.:80",
    "words-query:8080",
]
FOREIGN = [
    "evil.example",
    "evil.example:30805",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "a.svc.evil.example:80",
    "svc.evil.example",
    "[::1",
    "127.1.evil:1",
]


@pytest.mark.parametrize("host", OWN)
def test_hosts_that_no_public_name_server_gives_are_its_own(host: str) -> None:
    Callers().check(host, None)


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_a_stranger_can_own_is_refused(host: str) -> None:
    with pytest.raises(ForbiddenError, match="QSS_ALLOWED_HOSTS"):
        Callers("other.example").check(host, None)


def test_hosts_that_are_named_are_taken() -> None:
    callers = Callers("state.example.org, *.shop.example")
    for host in ("state.example.org:443", "STATE.example.org", "a.shop.example"):
        callers.check(host, None)
    for host in ("shop.example", "xshop.example", "state.example.org.evil.example"):
        with pytest.raises(ForbiddenError):
            callers.check(host, None)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", ""]
)
def test_a_page_of_another_origin_may_not_ask(origin: str) -> None:
    with pytest.raises(ForbiddenError, match="QSS_ALLOWED_ORIGINS"):
        Callers().check("127.0.0.1:30805", origin)


def test_pages_of_its_own_and_of_named_origins_may_ask() -> None:
    callers = Callers(origins="https://console.example")
    callers.check("127.0.0.1:30805", "http://127.0.0.1:30805")
    callers.check("127.0.0.1:30805", "https://console.example")
    callers.check(None, None)  # A client of HTTP/1.0 that is no browser.
