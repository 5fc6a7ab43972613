"""Asks a pod questions in every way, and compares the answers with the reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from qss_core.model import StoreType
from qss_testing.clients.http import NDJSON, Api
from qss_testing.reference.store_reference import KEEPS, Found, Reference
from qss_testing.reference.store_scans import PARTITION_OF, UNCOMMITTED, Question, Scan, scan_of

FAR = 2**40


def check_rows(
    reference: Reference, rows: Sequence[Any], wanted: Sequence[Found], *, shape: str = ""
) -> None:
    """An answer's rows are these, in this order."""
    assert len(rows) == len(wanted), (rows, wanted)
    for row, found in zip(rows, wanted, strict=True):
        reference.check_row(row, found, shape=shape)


def check_state(reference: Reference, answer: Mapping[str, Any], *, uncommitted: bool) -> None:
    """Each partition that answered names its state."""
    for partition, part in answer.items():
        assert part["position"] == reference.position, partition
        assert part["sequence"] == reference.sequence, partition
        number = int(partition)
        assert part["streamTime"] == reference.stream_time(number, uncommitted=uncommitted)


async def ask_scan(api: Api, reference: Reference, scan: Scan, *, streamed: bool) -> None:
    """Reads all rows at once."""
    if streamed and not scan.by_time:
        lines = (await api.get(scan.url(), Accept=NDJSON)).lines()
        marks = {str(line["partition"]): line for line in lines if "partition" in line}
        assert all(mark["end"] for mark in marks.values())
        check_state(reference, marks, uncommitted=scan.uncommitted)
        rows = [line for line in lines if "partition" not in line]
    else:
        answer = (await api.get(scan.url())).json()
        assert answer["cursor"] is None
        check_state(reference, answer["partitions"], uncommitted=scan.uncommitted)
        rows = answer["rows"]
    check_rows(reference, rows, scan.rows(reference))


@dataclass
class Pages:
    """A scan that is read page by page, while the store changes."""

    scan: Scan
    limit: int
    cursor: str | None = None
    last: Found | None = None
    ended: frozenset[int] = frozenset()
    is_over: bool = False

    async def next_page(self, api: Api, reference: Reference) -> None:
        """Reads the rest of the present state, after the last row."""
        more = {} if self.cursor is None else {"cursor": self.cursor}
        answer = (await api.get(self.scan.url(limit=self.limit, **more))).json()
        left = [row for row in self.scan.rows(reference) if self._is_left(row)]
        check_rows(reference, answer["rows"], left[: self.limit])
        check_state(reference, answer["partitions"], uncommitted=self.scan.uncommitted)
        if answer["rows"]:
            self.last = left[len(answer["rows"]) - 1]
        ended = {int(number) for number, one in answer["partitions"].items() if one["end"]}
        self.ended |= ended
        self.cursor = answer["cursor"]
        self.is_over = self.cursor is None
        assert len(left) <= self.limit or not self.is_over
        # A page that is not full has all remaining rows.
        assert len(left) >= self.limit or self.is_over
        assert not any(row.partition in self.ended for row in left[self.limit :])

    def _is_left(self, row: Found) -> bool:
        if row.partition in self.ended:
            return False
        return self.last is None or self.scan.is_behind(row, self.last)


# --- Points, many keys, IQv2


async def ask_points(api: Api, reference: Reference, question: Question) -> None:
    """Reads one row, in every way."""
    match reference.definition.type:
        case StoreType.KEY_VALUE:
            await _ask_key(api, reference, question)
            await _ask_many(api, reference, question)
        case StoreType.VERSIONED:
            await _ask_version(api, reference, question)
        case _ if not reference.definition.retain_duplicates:
            await _ask_timed(api, reference, question)


async def _ask_one(api: Api, reference: Reference, path: str, found: Found | None) -> None:
    answer = await api.get(path)
    assert int(answer.headers["Queryable-State-Sequence"]) == reference.sequence
    if found is None:
        answer.problem(404, "KEY_NOT_FOUND")
    else:
        assert answer.headers["Queryable-State-Partition"] == str(found.partition)
        reference.check_row(answer.json(), found)


def _isolation(question: Question) -> dict[str, str]:
    return UNCOMMITTED if question.uncommitted else {}


async def _ask_key(api: Api, reference: Reference, question: Question) -> None:
    rows = {row.put.key: row for row in reference.rows(uncommitted=question.uncommitted)}
    found = rows.get(question.key.encode())
    path = f"/state/stores/words/{quote(question.key, safe='')}?{urlencode(_isolation(question))}"
    await _ask_one(api, reference, path, found)
    for name, shape in (
        ("KeyQuery", "Plain"),
        ("TimestampedKeyQuery", "Timestamped"),
        ("TimestampedKeyWithHeadersQuery", "TimestampedWithHeaders"),
    ):
        if KEEPS[shape] > KEEPS[reference.format]:
            continue
        results = await ask_query(api, reference, {"type": name, "key": question.key}, question)
        (row,) = results.values()
        if found is None:
            assert row is None
        else:
            reference.check_row(row, found, shape=shape)


async def _ask_many(api: Api, reference: Reference, question: Question) -> None:
    rows = {row.put.key.decode(): row for row in reference.rows(uncommitted=question.uncommitted)}
    body = {"keys": [*PARTITION_OF, question.key], **_isolation(question)}
    answer = (await api.post("/state/get/words", body)).json()
    for key, result in zip(body["keys"], answer["results"], strict=True):
        status = result.pop("status")
        assert status == ("FOUND" if key in rows else "ABSENT"), result
        if key in rows:
            assert result.pop("partition") == rows[key].partition
            reference.check_row(result, rows[key])


async def _ask_version(api: Api, reference: Reference, question: Question) -> None:
    number, time = PARTITION_OF[question.key], question.first
    seen = question.uncommitted
    found = reference.as_of(number, question.key.encode(), time, uncommitted=seen)
    members = {} if time is None else {"asOf": time}
    parameters = urlencode({**members, **_isolation(question)})
    path = f"/state/versions/words/{quote(question.key, safe='')}?{parameters}"
    await _ask_one(api, reference, path.rstrip("?"), found)
    query = {"type": "VersionedKeyQuery", "key": question.key, "asOfTimestamp": time}
    (row,) = (await ask_query(api, reference, query, question)).values()
    assert row == (None if found is None else found.members)


async def _ask_timed(api: Api, reference: Reference, question: Question) -> None:
    """Reads one window or session, existing or not."""
    rows = [
        row
        for row in reference.rows(uncommitted=question.uncommitted)
        if row.put.key.decode() == question.key
    ]
    isolation = _isolation(question)
    is_window = reference.definition.type is StoreType.WINDOW
    path = f"/state/{'windows' if is_window else 'sessions'}/words/{quote(question.key, safe='')}"
    for found in rows[:2]:
        exact = {"start": found.put.start} | ({} if is_window else {"end": found.put.end})
        await _ask_one(api, reference, f"{path}?{urlencode({**exact, **isolation})}", found)
    exact = {"start": 3} | ({} if is_window else {"end": 4})
    await _ask_one(api, reference, f"{path}?{urlencode({**exact, **isolation})}", None)


async def ask_query(
    api: Api, reference: Reference, query: dict[str, Any], question: Question
) -> dict[int, Any]:
    """Each partition's answer to an IQv2 query, at the store's position."""
    answer = await api.query(query, positionBound=reference.position, **_isolation(question))
    parts = answer["partitionResults"]
    assert answer["position"] == reference.position
    check_state(reference, parts, uncommitted=question.uncommitted)
    return {int(number): part["result"] for number, part in parts.items()}


async def ask_rows(api: Api, reference: Reference, question: Question) -> None:
    """Reads many rows by IQv2."""
    store_type, shape = reference.definition.type, ""
    if store_type is StoreType.KEY_VALUE:
        question, shape = replace(question, of_key=False), "Plain"
    if store_type is StoreType.WINDOW:
        first, last = question.time_bounds()
        last = FAR if last is None else last
        question = replace(question, of_key=True, reverse=False, first=first or 0, last=last)
        shape = "Timestamped" if KEEPS[reference.format][0] else "Plain"
    results = await ask_query(api, reference, _QUERIES[store_type](question), question)
    rows = [row for number in sorted(results) for row in results[number]]
    scan = replace(scan_of(question, store_type), by_time=False)
    check_rows(reference, rows, scan.rows(reference), shape=shape)


def _range_query(question: Question) -> dict[str, Any]:
    lower, upper = (None if key is None else key.decode() for key in question.key_bounds())
    return {"type": "RangeQuery", "lower": lower, "upper": upper, "order": _order_of(question)}


def _window_query(question: Question) -> dict[str, Any]:
    first, last = question.time_bounds()
    return {"type": "WindowKeyQuery", "key": question.key, "timeFrom": first, "timeTo": last}


def _session_query(question: Question) -> dict[str, Any]:
    first, last = question.time_bounds()
    lower, upper = (None if key is None else key.decode() for key in question.key_bounds())
    keys = {"key": question.key} if question.of_key else {"keyFrom": lower, "keyTo": upper}
    times = {"endFrom": first, "startTo": last}
    return {"type": "SessionQuery", "order": _order_of(question), **keys, **times}


def _versions_query(question: Question) -> dict[str, Any]:
    first, last = question.time_bounds()
    times = {"fromTime": first, "toTime": last}
    order = _order_of(question)
    return {"type": "MultiVersionedKeyQuery", "key": question.key, "order": order, **times}


def _order_of(question: Question) -> str:
    return "DESCENDING" if question.reverse else "ASCENDING"


_QUERIES = {
    StoreType.KEY_VALUE: _range_query,
    StoreType.WINDOW: _window_query,
    StoreType.SESSION: _session_query,
    StoreType.VERSIONED: _versions_query,
}


async def ask_count(api: Api, reference: Reference) -> None:
    """Asks for the number of rows, if the engine knows it exactly."""
    answer = (await api.get("/state/count/words")).json()
    check_state(reference, answer["partitions"], uncommitted=False)
    match reference.definition.type:
        case StoreType.KEY_VALUE:
            assert answer["count"] == len(reference.rows())
        case StoreType.VERSIONED:
            keys = [
                key
                for key, number in PARTITION_OF.items()
                if reference.as_of(number, key.encode(), None)
            ]
            assert answer["count"] == len(keys)
        case _:  # Rows that retention hides count for a while.
            held = sum(len(one.rows.by_key) for one in reference.partitions)
            assert len(reference.rows()) <= answer["count"] <= held
