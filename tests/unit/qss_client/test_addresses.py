"""The places in which a client looks for a store."""

from pathlib import Path

import pytest

from qss_client import Store
from qss_client.addresses import checked_name, checked_urls, find_urls
from qss_core.errors import (
    MalformedRequestError,
    StoreError,
    StoreNotFoundError,
    UnreachableError,
)
from qss_spark import StoreSink

A, B, C = "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"


def published(directory: Path, text: str) -> Path:
    """A state directory in which the store `words` has this status."""
    (directory / "words").mkdir(parents=True)
    (directory / "words" / "status.yaml").write_text(text)
    return directory


def test_what_is_given_comes_before_the_environment_and_that_before_the_directory(
    tmp_path: Path,
) -> None:
    local = published(tmp_path, f"endpoints: {{query: '{A}', pods: [{{query: '{A}'}}]}}")
    environment = {"QSS_URL": B, "QSS_STATE_DIR": str(local)}
    assert find_urls("words", C, environment=environment) == (C,)
    assert find_urls("words", environment=environment) == (B,)
    del environment["QSS_URL"]
    assert find_urls("words", environment=environment) == (A,)
    other = published(tmp_path / "other", f"endpoints: {{query: '{B}'}}")
    assert find_urls("words", None, other, environment) == (B,)


def test_a_store_is_found_in_the_state_directory_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(tmp_path / ".qss", f"endpoints: {{query: '{A}'}}")
    monkeypatch.chdir(tmp_path)
    for name in ("QSS_URL", "QSS_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert find_urls("words") == (A,)
    with Store(store="words") as store:
        assert repr(store) == f"Store({A!r}, 'words')"
    stopped = "conditions: [{reason: Stopped, message: it was stopped}]"
    (tmp_path / ".qss" / "words" / "status.yaml").write_text(stopped)
    with pytest.raises(UnreachableError, match="store words: it was stopped"):
        StoreSink("words")  # It contacts no pod of a store that is stopped.


def test_all_pods_of_a_local_store_are_found(tmp_path: Path) -> None:
    pods = f"[{{query: '{A}'}}, {{query: '{B}'}}, {{query: '{C}'}}]"
    local = published(tmp_path, f"endpoints: {{query: '{B}', pods: {pods}}}")
    assert find_urls("words", state_dir=local, environment={}) == (B, A, C)


def test_a_local_store_that_cannot_be_asked_is_told(tmp_path: Path) -> None:
    def find(name: str, text: str) -> None:
        find_urls("words", state_dir=published(tmp_path / name, text), environment={})

    with pytest.raises(StoreNotFoundError, match=r"give its URL.*QSS_URL, or run `qss up`"):
        find_urls("words", state_dir=tmp_path, environment={})
    with pytest.raises(StoreNotFoundError, match="has no address yet: see `qss status words`"):
        find("new", "conditions: []")
    stopped = "conditions: [{reason: Stopped, message: it was stopped}]"
    with pytest.raises(UnreachableError, match="store words: it was stopped"):
        find("stopped", stopped)
    texts = ("{", "garbage", "[1]", "conditions: [5]", "conditions: 7", "endpoints: {pods: [1]}")
    for number, text in enumerate(texts):
        with pytest.raises(StoreError, match=r"status.yaml is damaged"):
            find(f"damaged-{number}", text)


def test_urls_are_a_list_or_a_text_with_commas_each_once() -> None:
    assert checked_urls(f"{A}, {B}/,{A}") == checked_urls([A, B]) == (A, B)


@pytest.mark.parametrize("given", [[], "words", f"{A},words", f"{A},", [7], "http://a b"])
def test_what_is_no_url_is_refused(given: object) -> None:
    with pytest.raises(MalformedRequestError, match=r"url|URL"):
        checked_urls(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["http://me:secret@127.0.0.1:1", "http://me@127.0.0.1:1"])
def test_a_password_in_a_url_is_refused_and_not_shown(given: str) -> None:
    """The client would not send it."""
    with pytest.raises(MalformedRequestError, match="a store takes a token") as caught:
        checked_urls(given)
    assert "me" not in caught.value.message.split()
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("given", ["ftp://me:secret@h", "http://:secret@/", "me:secret@h"])
def test_a_password_in_what_is_no_url_is_not_shown(given: str) -> None:
    with pytest.raises(MalformedRequestError, match="without a user or a password") as caught:
        checked_urls(given)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_store_has_a_name(name: object) -> None:
    with pytest.raises(MalformedRequestError, match="the store's name is needed"):
        checked_name(name)


@pytest.mark.parametrize("name", ["../x", "Words", "a/b", "-a", "w\n"])
def test_a_name_of_a_store_is_a_name_of_kubernetes(name: str) -> None:
    with pytest.raises(MalformedRequestError, match="is no store's name"):
        checked_name(name)


def test_a_store_that_a_local_cluster_lacks_is_told_with_those_that_it_has(tmp_path: Path) -> None:
    for store in ("words", "nums"):
        (tmp_path / store).mkdir()
        (tmp_path / store / "status.yaml").write_text("{}")
    with pytest.raises(
        StoreNotFoundError, match=r"a store numz \(its stores: nums, words\): give its"
    ):
        find_urls("numz", state_dir=tmp_path, environment={})
    with pytest.raises(StoreNotFoundError, match="a store numz: give its URL"):
        find_urls("numz", state_dir=tmp_path / "none", environment={})
