"""What a client does, as exchanges: each yields a request, is sent its answer, and returns a value.

A shell (sync or async) sends the requests, repeats them where the rules say so, and throws the
failure into the exchange where they say to give up. An exchange that is answered with a failure
inside yields the request once more, with that failure.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from qss_client.answers import (
    Row,
    StateQueryResult,
    failure_of,
    merged,
    read_json,
    read_query_answer,
    row_of,
)
from qss_client.conversation import Conversation
from qss_client.http_answer import HttpAnswer
from qss_client.requests import (
    BATCH_KEYS_MAX,
    HttpRequest,
    ReadOptions,
    count_request,
    get_request,
    many_request,
    page_request,
    query_request,
)
from qss_core.errors import KeyNotFoundError
from qss_core.model import StoreDefinition
from qss_core.positions import Position, parse_bound

Result = TypeVar("Result")
Exchange = Generator[HttpRequest, HttpAnswer, Result]


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a scan, and the cursor that goes on after them; None at the end."""

    rows: tuple[Row, ...]
    cursor: str | None


def get(
    conversation: Conversation, definition: StoreDefinition, key: Any, options: ReadOptions
) -> Exchange[Row | None]:
    """The key's row; None where its partition answered that there is none."""
    request = get_request(definition, key, options)
    if request.method == "POST":  # The key cannot stand in a path.
        rows = yield from _get_some(conversation, definition, [key], options)
        return rows[0]
    try:
        answer = yield request
    except KeyNotFoundError:
        return None
    conversation.saw_token(answer.headers.get("queryable-state-position"))
    return row_of(read_json(answer.body))


def get_many(
    conversation: Conversation,
    definition: StoreDefinition,
    keys: Sequence[Any],
    options: ReadOptions,
) -> Exchange[list[Row | None]]:
    """The keys' rows, in their order; raises the first failure."""
    rows: list[Row | None] = []
    for start in range(0, len(keys), BATCH_KEYS_MAX):
        some = keys[start : start + BATCH_KEYS_MAX]
        rows += yield from _get_some(conversation, definition, some, options)
    return rows


def _get_some(
    conversation: Conversation,
    definition: StoreDefinition,
    keys: Sequence[Any],
    options: ReadOptions,
) -> Exchange[list[Row | None]]:
    request = many_request(definition, keys, options)
    document = yield from _whole(request, lambda document: document["results"])
    _saw_partitions(conversation, document)
    return [row_of(one) if one["status"] == "FOUND" else None for one in document["results"]]


def page(
    conversation: Conversation,
    definition: StoreDefinition,
    bounds: Mapping[str, Any],
    *,
    order: str,
    limit: int,
    cursor: str | None,
    partitions: Sequence[int] | None,
    options: ReadOptions,
) -> Exchange[Page]:
    """One page of a range, a prefix or a scan; raises a partition's failure."""
    request = page_request(
        definition,
        bounds,
        order=order,
        limit=limit,
        cursor=cursor,
        partitions=partitions,
        options=options,
    )
    document = yield from _whole(request, lambda document: document["partitions"].values())
    _saw_partitions(conversation, document)
    return Page(tuple(row_of(row) for row in document["rows"]), document.get("cursor"))


def query(
    conversation: Conversation,
    definition: StoreDefinition,
    request: Mapping[str, Any],
    partitions: Sequence[int] | None,
    options: ReadOptions,
    *,
    execution_info: bool,
    limit: int | None,
) -> Exchange[StateQueryResult]:
    """Any query; each partition's failure is a value in the result."""
    answer = yield query_request(
        definition, request, partitions, options, execution_info=execution_info, limit=limit
    )
    result = read_query_answer(answer.body)
    conversation.saw(result.position)
    return result


def count(
    conversation: Conversation,  # noqa: ARG001 every exchange has one.
    definition: StoreDefinition,
    options: ReadOptions,
) -> Exchange[int]:
    """About how many entries the store has; raises the failure of a partition."""
    request = count_request(definition, options)
    document = yield from _whole(request, lambda document: document["partitions"].values())
    counted: int = document["count"]
    return counted


def _whole(
    request: HttpRequest, parts: Callable[[Any], Iterable[Mapping[str, Any]]]
) -> Exchange[Any]:
    """An answer without a failure in its parts: while they have one, it is asked for again."""
    while True:
        answer = yield request
        document = read_json(answer.body)
        failed = next((part["failure"] for part in parts(document) if "failure" in part), None)
        if failed is None:
            return document
        request = replace(request, after=failure_of(failed))


def _saw_partitions(conversation: Conversation, document: Mapping[str, Any]) -> None:
    positions: list[Position] = [
        parse_bound(partition["position"])
        for partition in document.get("partitions", {}).values()
        if partition.get("position")
    ]
    conversation.saw(merged(positions))
