"""A plain HTTP client for tests: unchanged paths, complete answers."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from qss_core.errors import NotReadyError

NDJSON = "application/x-ndjson"
_LARGE_BYTES = 1024 * 1024  # aiohttp warns of larger bodies in one piece.


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        return self.headers.get("Content-Type", "")

    def json(self) -> Any:
        """The body of a successful answer."""
        assert self.status == 200, self.body
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        """The lines of a successful stream."""
        assert (self.status, self.media) == (200, NDJSON), self.body
        assert self.body.endswith(b"\n")
        return [json.loads(line) for line in self.body.splitlines()]

    def problem(self, status: int, code: str) -> dict[str, Any]:
        """The problem document of a refusal with this status and code."""
        problem: dict[str, Any] = json.loads(self.body)
        assert self.media == "application/problem+json"
        assert (self.status, problem["status"], problem["code"]) == (status, status, code), problem
        assert problem["detail"]
        assert problem["retry"] in ("never", "later", "refresh-routes")
        return problem


class Api:
    """The query port of a pod."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str, **headers: str) -> Answer:
        """GET; in a header's name `_` stands for `-`."""
        return await self.send("GET", path, None, headers)

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        """POST of JSON, or of bytes unchanged."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send("POST", path, data, headers)

    async def send(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(self._url + path, encoded=True)
        body = io.BytesIO(data) if data and len(data) > _LARGE_BYTES else data
        async with self._session.request(method, url, data=body, headers=named) as response:
            return Answer(response.status, response.headers, await response.read())

    async def rows(self, path: str) -> list[Any]:
        """The rows of a complete scan."""
        answer = (await self.get(path)).json()
        assert answer["cursor"] is None, answer
        assert all(one["end"] for one in answer["partitions"].values()), answer["partitions"]
        rows: list[Any] = answer["rows"]
        return rows

    async def query(self, query: dict[str, Any], **members: Any) -> Any:
        """The successful answer to an IQv2 request."""
        return (await self.post("/state/query/words", {"query": query, **members})).json()


async def once_led(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """An answer of a store whose actives may act.

    A short lease runs out while a busy machine does something else; it is renewed soon.
    """
    for _ in range(100):
        if NotReadyError.code.encode() not in (answer := await ask()).body:
            return answer
        await asyncio.sleep(0.1)
    return answer
