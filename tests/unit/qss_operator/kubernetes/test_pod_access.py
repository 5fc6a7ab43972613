"""The operator's token for pods, and its trust in their certificates."""

import base64
from pathlib import Path
from typing import Any

import pytest

from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_operator.kubernetes.access.pod_access import PodAccess, TlsSecretError, authority_of
from qss_operator.kubernetes.access.tokens import StoreTokens, TokenRequestError
from qss_operator.kubernetes.api.errors import ForbiddenError
from qss_operator.kubernetes.api.kinds import Kind
from qss_operator.kubernetes.names import StoreNames
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.certificates import Authority

NAMES = StoreNames(namespace="shop", store=StoreName("words"), scheme="https")
OWN, COMMON = "queryablestate.dev/shop/words", "queryablestate.dev"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(**data: str) -> dict[str, Any]:
    return {"data": {name.replace("_", "."): encoded(text) for name, text in data.items()}}


class Secrets:
    """Counts the reads of a Secret."""

    def __init__(self, found: dict[str, Any] | None) -> None:
        self.found = found
        self.asked = 0

    async def find(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        self.asked += 1
        return self.found

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str | None = None
    ) -> list[dict[str, Any]]:
        raise AssertionError("no list of secrets is ever needed")


class Issuer:
    """Counts the tokens that it issues; each is valid for `life_s`."""

    def __init__(self, life_s: float = 1000.0) -> None:
        self.life_s = life_s
        self.asked: list[tuple[str, str, str]] = []
        self.refusal: StoreError | None = None

    async def create_token(
        self, namespace: str, account: str, audience: str, life_s: int
    ) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((namespace, account, audience))
        token = f"{audience}#{len(self.asked)}"
        return {"spec": {"expirationSeconds": self.life_s}, "status": {"token": token}}


def pod_spec(audience: str | None) -> dict[str, Any]:
    arguments = ["--store=words", *([f"--token-audience={audience}"] if audience else [])]
    return {"containers": [{"name": "store", "args": arguments}]}


def pod_that_takes(audience: str | None, owner: str = "set", uid: str = "") -> dict[str, Any]:
    owners = [{"kind": "StatefulSet", "name": "words", "uid": owner, "controller": True}]
    metadata = {"uid": uid or f"{audience}", "ownerReferences": owners}
    return {"metadata": metadata, "spec": pod_spec(audience)}


def set_of(audience: str, uid: str = "set") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"template": {"spec": pod_spec(audience)}}}


OLDER, NEWER = set_of(COMMON), set_of(OWN)


def access_of(issuer: Issuer, clock: SetClock, account: str = "system/operator") -> PodAccess:
    return PodAccess(NAMES, StoreTokens(issuer, account, clock), COMMON, clock)


async def test_each_pod_is_shown_the_token_that_it_takes_and_no_other_stores() -> None:
    issuer, clock = Issuer(), SetClock(0.0)
    access = access_of(issuer, clock)
    pods = {
        "words-0": pod_that_takes(OWN),
        "words-1": pod_that_takes(COMMON),
        "words-2": pod_that_takes("queryablestate.dev/shop/birds"),
        "words-3": pod_that_takes(None),
    }
    await access.refresh_tokens(pods, OLDER, checks_callers=True)
    assert [access.headers(NAMES.address(number)) for number in range(5)] == [
        {"Authorization": f"Bearer {OWN}#2"},
        {"Authorization": f"Bearer {COMMON}#1"},
        {},
        {},
        {},
    ]
    assert issuer.asked == [("system", "operator", COMMON), ("system", "operator", OWN)]
    del pods["words-1"]
    await access.refresh_tokens(pods, OLDER, checks_callers=True)
    access.saw({"words-1": pod_that_takes(COMMON)}, OLDER)
    assert access.headers(NAMES.address(1)) == {}, "what no pod takes is forgotten"


async def test_a_store_that_asks_nobody_gets_no_token_whatever_its_pods_say() -> None:
    issuer, clock = Issuer(), SetClock(0.0)
    access = access_of(issuer, clock)
    pods = {"words-0": pod_that_takes(None), "words-1": pod_that_takes(COMMON)}
    await access.refresh_tokens(pods, OLDER, checks_callers=False)
    assert [access.headers(NAMES.address(number)) for number in range(2)] == [{}, {}]
    assert issuer.asked == []


@pytest.mark.parametrize(
    ("stateful_set", "owner", "shown"),
    [
        (OLDER, "set", COMMON),
        (OLDER, "of somebody", None),
        (NEWER, "set", None),
        (None, "set", None),
    ],
)
async def test_the_common_token_is_for_pods_of_a_set_that_names_it(
    stateful_set: dict[str, Any] | None, owner: str, shown: str | None
) -> None:
    issuer, clock = Issuer(), SetClock(0.0)
    access = access_of(issuer, clock)
    pods = {"words-0": pod_that_takes(COMMON, owner)}
    await access.refresh_tokens(pods, stateful_set, checks_callers=True)
    expected = {} if shown is None else {"Authorization": f"Bearer {shown}#1"}
    assert access.headers(NAMES.address(0)) == expected
    assert [audience for _, _, audience in issuer.asked] == ([COMMON] if shown else []) + [OWN]


async def test_a_pod_with_the_label_of_a_store_is_shown_nothing() -> None:
    access = access_of(Issuer(), SetClock(0.0))
    pods = {"words-0": pod_that_takes(OWN), "words-1": pod_that_takes(OWN, "other", "rogue")}
    pods["words-2"] = {"metadata": {"uid": "alone"}, "spec": pod_spec(OWN)}
    await access.refresh_tokens(pods, NEWER, checks_callers=True)
    shown = [bool(access.headers(NAMES.address(number))) for number in range(3)]
    assert shown == [True, False, False]


async def test_pods_of_a_set_that_is_made_again_are_known_meanwhile() -> None:
    access = access_of(Issuer(), SetClock(0.0))
    pods = {"words-0": pod_that_takes(COMMON)}
    again = set_of(OWN, "new set")
    for now in (OLDER, None, set_of(COMMON, "new set")):
        await access.refresh_tokens(pods, now, checks_callers=True)
        assert access.headers(NAMES.address(0)) == {"Authorization": f"Bearer {COMMON}#1"}
    await access.refresh_tokens(pods, again, checks_callers=True)
    assert access.headers(NAMES.address(0)) == {}


async def test_an_operator_without_an_account_shows_nothing() -> None:
    issuer, clock = Issuer(), SetClock(0.0)
    access = access_of(issuer, clock, account="")
    await access.refresh_tokens({"words-0": pod_that_takes(OWN)}, OLDER, checks_callers=True)
    assert access.headers(NAMES.address(0)) == {}
    assert issuer.asked == []


async def test_a_token_is_kept_for_four_fifths_of_its_life() -> None:
    issuer, clock = Issuer(), SetClock(0.0)
    access = access_of(issuer, clock)
    pods = {"words-0": pod_that_takes(OWN)}
    for clock.now_s, number in ((0.0, 1), (799.0, 1), (800.0, 2), (1599.0, 2), (1600.0, 3)):
        await access.refresh_tokens(pods, OLDER, checks_callers=True)
        shown = access.headers(NAMES.address(0))
        assert shown == {"Authorization": f"Bearer {OWN}#{number}"}, clock.now_s


async def test_a_token_that_cannot_be_renewed_is_shown_until_it_ends_and_then_nothing_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer, clock = Issuer(), SetClock(0.0)
    access = access_of(issuer, clock)
    pods = {"words-0": pod_that_takes(OWN), "words-1": pod_that_takes(COMMON)}
    await access.refresh_tokens(pods, OLDER, checks_callers=True)
    issuer.refusal = ForbiddenError("the operator may not create serviceaccounts/token")
    clock.now_s = 999.0
    await access.refresh_tokens(pods, OLDER, checks_callers=True)
    assert access.headers(NAMES.address(0)) == {"Authorization": f"Bearer {OWN}#2"}
    assert f"no token with the audience {OWN}: the operator may not create" in caplog.text
    assert "#" not in caplog.text, "no token is in the log"
    clock.now_s = 1100.0
    with pytest.raises(TokenRequestError, match="may not create serviceaccounts/token"):
        await access.refresh_tokens(pods, OLDER, checks_callers=True)
    assert access.headers(NAMES.address(0)) == {}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "the Secret words-tls does not exist"),
        (secret(tls_crt="x"), "has no tls.key"),
        ({"data": {}}, "has no tls.crt and no tls.key"),
        ({"data": {"tls.crt": "%%", "tls.key": "eA=="}}, "holds no PEM"),
    ],
)
def test_a_secret_that_is_no_certificate_is_named(found: dict[str, Any] | None, says: str) -> None:
    with pytest.raises(TlsSecretError, match=says):
        authority_of(found, "words-tls")


def test_a_certificate_without_an_authority_vouches_for_itself() -> None:
    assert authority_of(secret(tls_crt="own", tls_key="k"), "words-tls") == "own"
    assert authority_of(secret(tls_crt="own", tls_key="k", ca_crt="root"), "words-tls") == "root"


async def test_what_is_no_certificate_is_said_and_asked_for_again() -> None:
    secrets = Secrets(secret(tls_crt="not a PEM", tls_key="k"))
    access = access_of(Issuer(), SetClock(0.0))
    for _ in range(2):
        with pytest.raises(TlsSecretError, match="holds no certificate"):
            await access.refresh(secrets, "words-tls")
    assert secrets.asked == 2


async def test_the_last_authority_stays_while_the_secret_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (
        Authority.make(tmp_path / name).file.read_text() for name in ("first", "second")
    )
    secrets, clock = Secrets(secret(tls_crt=first, tls_key="k")), SetClock(0.0)
    access = access_of(Issuer(), clock)
    await access.refresh(secrets, "words-tls")
    trusted = access.tls(NAMES.address(0))["ssl"]
    useless: list[dict[str, Any] | None] = [
        None,
        {"data": {}},
        secret(tls_crt="not a PEM", tls_key="k"),
    ]
    for found in useless:
        secrets.found, secrets.asked = found, 0
        clock.now_s += 60.0
        for _ in range(3):
            await access.refresh(secrets, "words-tls")
            clock.now_s += 5.0
        assert secrets.asked == 2, "it is read each ten seconds"
        assert access.tls(NAMES.address(0))["ssl"] is trusted
        assert access.secret_error is not None
    said = "the Secret words-tls does not exist: make it with tls.crt, tls.key and ca.crt; the pods"
    assert caplog.text.count(said) == 1
    secrets.found = secret(tls_crt=second, tls_key="k")
    clock.now_s += 10.0
    await access.refresh(secrets, "words-tls")
    assert access.secret_error is None
    assert access.tls(NAMES.address(0))["ssl"] is not trusted


async def test_a_store_without_a_certificate_needs_no_secret() -> None:
    secrets = Secrets(None)
    await access_of(Issuer(), SetClock(0.0)).refresh(secrets, None)
    assert secrets.asked == 0
