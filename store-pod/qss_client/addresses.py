"""Finds the URLs of a store: given ones, those of the environment, or a local cluster's.

Without a given URL it takes QSS_URL from the environment. Without QSS_URL it takes the local
cluster in the directory QSS_STATE_DIR, by default `.qss`, as `qss up` makes it.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qss_client.arguments import shown_value
from qss_client.processes import ProcessId, is_alive
from qss_core.errors import MalformedRequestError, StoreError, StoreNotFoundError, UnreachableError
from qss_core.text import listed

STATE_DIR = Path(".qss")
# The words of a status whose `qss up` has ended in order.
_STOPPED = "the local cluster is stopped and the data is kept: `qss up` starts it again"
_NAME = re.compile("[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
Urls = str | Sequence[str]


def find_urls(
    store: str,
    given: Urls | None = None,
    state_dir: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, ...]:
    """The base URLs of a store's pods, the preferred one first.

    Raises MalformedRequestError for an invalid URL, StoreNotFoundError if there is no URL, and
    UnreachableError for a store of a local cluster that was stopped.
    """
    found = (environment.get("QSS_URL") or None) if given is None else given
    if found is not None:
        return checked_urls(found)
    return _local_urls(store, state_dir or Path(environment.get("QSS_STATE_DIR") or STATE_DIR))


def local_stores(state_dir: Path) -> list[str]:
    """The names of the stores in a state directory, by name; of stopped ones, too."""
    return sorted(file.parent.name for file in state_dir.glob("*/status.yaml"))


def local_metrics_urls(store: str, state_dir: Path) -> tuple[str, ...]:
    """The ops ports of a local store's pods, by their numbers; none where no ports are recorded."""
    yaml = _yaml()
    try:
        recorded = yaml.safe_load((state_dir / store / "ports.yaml").read_text()) or ()
        return tuple(f"http://127.0.0.1:{int(pod['ops'])}" for pod in recorded)
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return ()


def checked_name(store: object) -> str:
    """The name of a store. Raises MalformedRequestError."""
    if not isinstance(store, str) or not store:
        raise MalformedRequestError(
            f'the store\'s name is needed, as store="words" or behind its URL, '
            f"not {shown_value(store)}"
        )
    if not _NAME.fullmatch(store):
        raise MalformedRequestError(
            f"{shown_value(store)} is no store's name, which has lowercase letters, digits, - and ."
        )
    return store


def checked_urls(given: Urls) -> tuple[str, ...]:
    """Base URLs without a trailing slash, each once, from a list or a text with commas."""
    texts = given.split(",") if isinstance(given, str) else given
    if not texts or isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
        raise MalformedRequestError(f"url: one URL or more, not {shown_value(given)}")
    return tuple(dict.fromkeys(_checked(text) for text in texts))


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise MalformedRequestError(f"url: a text like http://127.0.0.1:8080, not {text!r}")
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    may_show = "@" not in url  # The part before the @ may be a password.
    if not is_url or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise MalformedRequestError(
            f"a URL like http://127.0.0.1:8080 is needed, not {text!r}; a store of the local "
            'cluster is found by its name alone: store="..." and no url'
            if may_show
            else "a URL like http://127.0.0.1:8080 is needed, without a user or a password"
        )
    if parts.username is not None or parts.password is not None:
        raise MalformedRequestError(
            "a URL with a user or a password is not used: a store takes a token (qss: "
            "--token-file, programs: token=...)"
        )
    return url


def _local_urls(store: str, state_dir: Path) -> tuple[str, ...]:
    yaml = _yaml()
    try:
        text = (state_dir / store / "status.yaml").read_text()
        document = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
        stopped, urls = _told(document)
    except (OSError, ValueError) as error:
        there = local_stores(state_dir)
        others = f" (its stores: {listed(there)})" if there else ""
        raise StoreNotFoundError(
            f"no local cluster in {state_dir} has a store {store}{others}: give its URL (qss: "
            "--url, programs: url=...), set QSS_URL, or run `qss up`"
        ) from error
    except (yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        raise StoreError(
            f"{state_dir / store / 'status.yaml'} is damaged: a running `qss up` writes it again "
            "in a moment; where none runs, mend the file or move it away before the next one"
        ) from error
    if stopped is not None:
        raise UnreachableError(f"store {store}: {stopped}")
    if _was_killed(state_dir):
        raise UnreachableError(f"store {store}: {_STOPPED}")
    if not urls:
        raise StoreNotFoundError(f"store {store} has no address yet: see `qss status {store}`")
    return checked_urls(urls)


def _told(status: Any) -> tuple[str | None, list[str]]:
    """Why a store was stopped, None where it runs, and the URLs that its status has.

    Raises AttributeError, TypeError or KeyError for a damaged status.
    """
    conditions = status.get("conditions") or ()
    stopped = (one["message"] for one in conditions if one["reason"] == "Stopped")
    endpoints = status.get("endpoints") or {}
    pods = [pod.get("query") for pod in endpoints.get("pods") or ()]
    return next(stopped, None), [url for url in (endpoints.get("query"), *pods) if url]


def _was_killed(state_dir: Path) -> bool:
    """Whether the `qss up` that the lock names has ended, and so could not publish that it has."""
    try:
        holder = json.loads((state_dir / "lock").read_text())
        process = ProcessId(pid=holder["pid"], started=holder["started"])
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return not is_alive(process)


def _yaml() -> Any:
    try:
        return import_module("yaml")
    except ModuleNotFoundError as error:
        raise StoreError(
            "without PyYAML no store of the local cluster is found: give the store's URL, or "
            "pip install 'queryable-state[cli]'"
        ) from error
