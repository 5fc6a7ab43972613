"""The tokens and token files of a client, and its second try after a 401."""

import os
from pathlib import Path

import pytest

from qss_client.http.credentials import Credentials, TokenFile, trusted_by
from qss_core.errors import CertificateRefusedError, MalformedRequestError, UnauthenticatedError


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_is_shown_and_has_no_other_after_a_refusal() -> None:
    shown = Credentials("abc")
    assert shown.headers() == bearer("abc")
    assert shown.headers_after(bearer("abc")) is None
    assert Credentials().headers() == {}
    assert Credentials().headers_after({}) is None


def test_a_function_is_asked_before_each_request() -> None:
    tokens = iter(["a", "b", "b"])
    shown = Credentials(lambda: next(tokens))
    assert shown.headers() == bearer("a")
    assert shown.headers_after(bearer("a")) == bearer("b")
    assert shown.headers_after(bearer("b")) is None


def test_a_file_is_read_again_when_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a\n")
    shown = Credentials(token_file=path)
    assert shown.headers() == bearer("a")
    newer = tmp_path / "newer"
    newer.write_text("b\n")
    newer.rename(path)
    assert shown.headers() == bearer("b")
    path.unlink()
    assert shown.headers() == bearer("b")


def test_after_a_refusal_a_file_is_read_though_it_looks_as_before(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a\n")
    seen = path.stat()
    shown = Credentials(token_file=path)
    assert shown.headers() == bearer("a")
    assert shown.headers_after(bearer("a")) is None
    with path.open("r+") as file:
        file.write("b")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert shown.headers() == bearer("a")
    assert shown.headers_after(bearer("a")) == bearer("b")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnauthenticatedError, match=r"/none cannot be read: No such file"):
        TokenFile(tmp_path / "none")()
    with pytest.raises(UnauthenticatedError, match=r"/none cannot be read"):
        TokenFile(tmp_path / "none").read_again()


@pytest.mark.parametrize("text", ["", "\n", "a b", "a\nX-Header: b", "ä", "a" * 20_000])
def test_what_cannot_stand_in_a_header_is_not_sent_and_not_quoted(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    for shown in (Credentials(token_file=path), Credentials(lambda: text)):
        with pytest.raises(UnauthenticatedError, match="holds no token") as told:
            shown.headers()
        assert "X-Header" not in str(told.value)


def test_a_pod_has_its_token_in_a_place_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert Credentials(pod_token_file=path).headers() == {}
    path.write_text("a")
    assert Credentials(pod_token_file=path).headers() == bearer("a")
    assert Credentials("given", pod_token_file=path).headers() == bearer("given")


def test_a_token_and_a_file_of_one_are_too_many() -> None:
    with pytest.raises(MalformedRequestError, match="not both"):
        Credentials("a", "b")


def test_authorities_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(CertificateRefusedError, match=r"/none cannot be used: No such file"):
        trusted_by(tmp_path / "none")
    empty = tmp_path / "empty"
    empty.write_text("")
    with pytest.raises(CertificateRefusedError, match=r"/empty cannot be used: holds no"):
        trusted_by(empty)
