"""A toy API server that reviews tokens and rights, in its own thread."""

import asyncio
import json
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from qss_client.clock import SystemClock
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.fakes.toy_objects import Object, RefusalError

AUDIENCE = "queryablestate.dev/shop/words"  # The audience of the guarded store.
COMMON = "queryablestate.dev"
OWN_TOKEN = "own"


def make_token(
    account: str,
    *,
    audience: str | None = AUDIENCE,
    expires_in_s: int | None = 3600,
    serial: int = 0,
) -> str:
    """A JWT that only toys accept; `account` is a service account's full name."""
    claims: dict[str, Any] = {"sub": account, "jti": serial}
    if audience is not None:
        claims["aud"] = [audience]
    if expires_in_s is not None:
        claims["exp"] = SystemClock().wall_ms() // 1000 + expires_in_s
    return ".".join(_base64(part) for part in (b'{"alg":"toy"}', json.dumps(claims).encode(), b"s"))


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(slots=True)
class Reviewer:
    """The rights of accounts: by account, (subresource, verb, namespace, store)."""

    rights: dict[str, set[tuple[str, str, str, str]]]
    server: ToyApiServer = field(default_factory=lambda: ToyApiServer(token=OWN_TOKEN))
    _refused: set[str] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.server.review = self._review
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self.server.listen())
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work in the server's thread."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def go_away(self) -> None:
        """Stops listening, so that no review is answered."""
        self.run(self.server.stop_listening())

    def come_back(self) -> None:
        """Listens on the same port again."""
        self.run(self.server.listen())

    def flags(self, directory: Path) -> tuple[str, ...]:
        """The arguments with which a pod uses this server."""
        directory.mkdir()
        (directory / "token").write_text(OWN_TOKEN)
        return "--kubernetes-api", self.server.url, "--kubernetes-credentials", str(directory)

    def asked(self, kind: str) -> list[Any]:
        """The specs of the received reviews of this kind."""
        return [one.body["spec"] for one in self.server.asked if one.body["kind"] == kind]

    def refuse(self, token: str) -> None:
        """Reviews of this token fail from now on, like those that flow control refuses."""
        self._refused.add(token)

    def _review(self, body: Object) -> Object:
        spec = body["spec"]
        if spec.get("token") in self._refused:
            raise RefusalError(429, "TooManyRequests", "come again")
        is_token = body["kind"] == "TokenReview"
        return {**body, "status": self._whose(spec) if is_token else self._may(spec)}

    def _whose(self, spec: Object) -> Object:
        try:
            payload = spec["token"].split(".")[1]
            claims = json.loads(urlsafe_b64decode(payload + "=="))
        except (ValueError, IndexError):
            return {"error": "invalid bearer token"}
        audiences = sorted(set(claims.get("aud", [])) & set(spec["audiences"]))
        is_over = claims.get("exp", 1e12) * 1000 <= SystemClock().wall_ms()
        if is_over or not audiences or claims["sub"] not in self.rights:
            return {"error": "invalid bearer token"}
        user = {"username": claims["sub"], "uid": "1", "groups": ["system:serviceaccounts"]}
        return {"authenticated": True, "audiences": audiences, "user": user}

    def _may(self, spec: Object) -> Object:
        asked = spec["resourceAttributes"]
        assert (asked["group"], asked["resource"]) == ("queryablestate.dev", "queryablestatestores")
        right = asked["subresource"], asked["verb"], asked["namespace"], asked["name"]
        return {"allowed": right in self.rights[spec["user"]]}
