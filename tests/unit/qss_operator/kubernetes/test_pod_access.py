"""The operator's token and trust toward pods."""

import base64
from pathlib import Path
from typing import Any

import pytest

from qss_core.model import StoreName
from qss_operator.kubernetes.kinds import Kind
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.pod_access import PodAccess, TlsSecretError, authority_of

NAMES = StoreNames(namespace="shop", store=StoreName("words"), scheme="https")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(**data: str) -> dict[str, Any]:
    return {"data": {name.replace("_", "."): encoded(text) for name, text in data.items()}}


class Secrets:
    """Counts how often it is asked."""

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


def test_a_token_is_read_each_time_as_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "token"
    access = PodAccess(NAMES, file, lambda: 0.0)
    assert access.headers() == {}
    file.write_text("first\n")
    assert access.headers() == {"Authorization": "Bearer first"}
    file.write_text("second")
    assert access.headers() == {"Authorization": "Bearer second"}


def test_without_a_token_file_nothing_is_shown() -> None:
    assert PodAccess(NAMES, None, lambda: 0.0).headers() == {}


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
    access = PodAccess(NAMES, None, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(TlsSecretError, match="holds no certificate"):
            await access.refresh(secrets, "words-tls")
    assert secrets.asked == 2


async def test_a_store_without_a_certificate_needs_no_secret() -> None:
    secrets = Secrets(None)
    await PodAccess(NAMES, None, lambda: 0.0).refresh(secrets, None)
    assert secrets.asked == 0
