# `make sync-client` writes this module from async_store.py.
"""`Store`: queries one store from a program without an event loop."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from qss_client.addresses import Urls, checked_name, find_urls
from qss_client.arguments import check_choice, keys_of
from qss_client.http.credentials import Token
from qss_client.http.retries import RetryLimits, check_limits
from qss_client.http.sync_http import SyncHttp
from qss_client.reads import calls, requests
from qss_client.reads.json_values import reader_of
from qss_client.reads.lookup import Lookup
from qss_client.reads.requests import DEFAULTS, ReadOptions
from qss_client.reads.responses import (
    NewerRow,
    PartitionResult,
    Row,
    SessionRow,
    StateQueryResult,
    VersionRow,
    WindowRow,
)
from qss_client.reads.scans import (
    Time,
    Timed,
    scan_keys,
    scan_range,
    scan_sessions,
    scan_versions,
    scan_windows,
)
from qss_client.reads.session import SessionState
from qss_client.reads.sync_session import Session
from qss_client.reads.tables import Found, Scanned
from qss_core.positions import Position
from qss_core.wire.messages import StoreMetadata


class Store(Lookup):
    """A client of one store: finds the pods, asks the right one, and repeats failed requests.

    With `monotonic` (the default) the newest position seen bounds every request, so this client's
    reads never go back. Methods raise qss_core.errors.StoreError; its `code` is stable.

    url: the query or internal port of any pod; a list, or a text with commas, names several. By
        default QSS_URL, or the local cluster in QSS_STATE_DIR, `.qss`: Store(store="words").
    token: a bearer token, or a function that returns one and is called before each request.
    token_file: is read again when it changes; by default a pod's own token for stores, if any.
    ca_file: the authorities for https; by default the system's.
    direct: whether the pods' own addresses can be reached; if not (a forwarded port, a gateway),
        all requests go to `url`, and the pod behind it asks the other pods.
    server_hostname: the name in the certificate, if it is not the URL's host.
    decimal: numbers with a point or an exponent are Decimal, which is exact, instead of float.
    raw: keys and values are msgspec.Raw, the store's JSON, for programs that forward it.
    """

    def __init__(
        self,
        url: Urls | None = None,
        store: str | None = None,
        *,
        token: Token | None = None,
        token_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        direct: bool = True,
        server_hostname: str | None = None,
        monotonic: bool = True,
        decimal: bool = False,
        raw: bool = False,
        limits: RetryLimits = RetryLimits(),  # noqa: B008 it is frozen.
    ) -> None:
        name = checked_name(store)
        for choice, value in (
            ("direct", direct),
            ("monotonic", monotonic),
            ("decimal", decimal),
            ("raw", raw),
        ):
            check_choice(choice, value)
        check_limits(limits)
        urls, read = find_urls(name, url), reader_of(decimal=decimal, raw=raw)
        http = SyncHttp(
            token, token_file=token_file, ca_file=ca_file, server_hostname=server_hostname
        )
        self._state = SessionState(urls, name, monotonic, http.turn, only_url=not direct, read=read)
        self._session = Session(self._state, http, limits)

    def __repr__(self) -> str:
        return f"Store({','.join(self._state.urls)!r}, {self._state.store!r})"

    def __enter__(self) -> Self:
        """Enters the block; its end closes the client."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._session.close()

    @property
    def position(self) -> Position:
        """The newest position seen; pass it to another client as `position_bound`."""
        return self._state.position

    def metadata(self) -> StoreMetadata:
        """The store's pods and partitions, as of the last discovery."""
        return self._session.metadata()

    # --- Queries

    def get(self, key: Any, options: ReadOptions = DEFAULTS) -> Row | None:
        """The key's row; None if there is none."""
        definition = self._session.definition()
        return self._session.run(calls.get(self._state, definition, key, options))

    def get_newer(
        self, key: Any, etag: str | None = None, options: ReadOptions = DEFAULTS
    ) -> NewerRow | None:
        """The key's row with the ETag of its state; None while `etag` names the newest state.

        For programs that follow a key: the next question sends the ETag of the last answer. A newer
        state may have the same row, since an ETag names the state of a partition.
        """
        definition = self._session.definition()
        asked = calls.get_newer(self._state, definition, key, etag, options)
        return self._session.run(asked)

    def get_many(self, keys: Iterable[Any], options: ReadOptions = DEFAULTS) -> Found:
        """The rows of many keys in their order, with None for a missing row."""
        asked = self._state, self._session.definition(), keys_of(keys), options
        rows = self._session.run(calls.get_many(*asked))
        return Found(rows, lambda: self._session.run(calls.many_table(*asked)))

    def range(
        self,
        lower: Any = None,
        upper: Any = None,
        *,
        index: str | None = None,
        order: str = "ASCENDING",
        limit: int | None = None,
        partitions: Sequence[int] | None = None,
        options: ReadOptions = DEFAULTS,
    ) -> Scanned[Row]:
        """Rows with lower <= key <= upper by serialized bytes, partition by partition.

        A bound of None is open; without bounds it is a scan. Pages are read as they are needed.
        index: bounds and order follow an index of a custom store type (spec.store.custom).
        """
        scan = scan_range((lower, upper), index, order, partitions, options)
        return self._session.scanned(scan, limit)

    def prefix(
        self,
        prefix: Any,
        *,
        order: str = "ASCENDING",
        limit: int | None = None,
        partitions: Sequence[int] | None = None,
        options: ReadOptions = DEFAULTS,
    ) -> Scanned[Row]:
        """Rows whose serialized key begins with the serialized prefix."""
        return self._session.scanned(
            scan_keys({"prefix": prefix}, order, partitions, options), limit
        )

    def windows(
        self,
        key: Any = None,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        key_from: Any = None,
        key_to: Any = None,
        order: str = "ASCENDING",
        order_by: str = "key",
        limit: int | None = None,
        partitions: Sequence[int] | None = None,
        options: ReadOptions = DEFAULTS,
    ) -> Scanned[WindowRow]:
        """Windows with from_ <= start <= to, of `key` or of the keys from key_from to key_to.

        Times are milliseconds since 1970, RFC 3339, or a date (its midnight, UTC). order_by: "key"
        (partition by partition, by key and then time), or "time" (over all partitions; each page
        scans the rest of the range).
        """
        timed = Timed(
            times={"from": from_, "to": to},
            key=key,
            key_from=key_from,
            key_to=key_to,
            order=order,
            order_by=order_by,
            partitions=partitions,
            options=options,
        )
        return self._session.scanned(scan_windows(timed), limit)

    def window(self, key: Any, start: Time, options: ReadOptions = DEFAULTS) -> WindowRow | None:
        """The window of a key that starts at `start`; None if there is none."""
        definition = self._session.definition()
        return self._session.run(calls.window(self._state, definition, key, start, options))

    def sessions(
        self,
        key: Any = None,
        *,
        end_from: Time | None = None,
        start_to: Time | None = None,
        key_from: Any = None,
        key_to: Any = None,
        order: str = "ASCENDING",
        order_by: str = "key",
        limit: int | None = None,
        partitions: Sequence[int] | None = None,
        options: ReadOptions = DEFAULTS,
    ) -> Scanned[SessionRow]:
        """Sessions with end >= end_from and start <= start_to; otherwise as `windows`."""
        timed = Timed(
            times={"endFrom": end_from, "startTo": start_to},
            key=key,
            key_from=key_from,
            key_to=key_to,
            order=order,
            order_by=order_by,
            partitions=partitions,
            options=options,
        )
        return self._session.scanned(scan_sessions(timed), limit)

    def session(
        self, key: Any, start: Time, end: Time, options: ReadOptions = DEFAULTS
    ) -> SessionRow | None:
        """The session of a key with exactly these bounds; None if there is none."""
        definition = self._session.definition()
        bounds = start, end
        return self._session.run(calls.session(self._state, definition, key, bounds, options))

    def versions(
        self,
        key: Any,
        *,
        from_: Time | None = None,
        to: Time | None = None,
        order: str = "DESCENDING",
        limit: int | None = None,
        options: ReadOptions = DEFAULTS,
    ) -> Scanned[VersionRow]:
        """The versions of a key that were valid at some time from `from_` to `to`, newest first."""
        return self._session.scanned(scan_versions(key, (from_, to), order, options), limit)

    def version(
        self, key: Any, as_of: Time | None = None, options: ReadOptions = DEFAULTS
    ) -> VersionRow | None:
        """The version of a key that was valid at `as_of`; without it the latest."""
        definition = self._session.definition()
        return self._session.run(calls.version(self._state, definition, key, as_of, options))

    def count(
        self,
        options: ReadOptions = DEFAULTS,
        *,
        exact: bool = False,
        partitions: Sequence[int] | None = None,
    ) -> int:
        """The number of entries, estimated or exact.

        By default it is RocksDB's estimate of committed rows, which counts a key for each write
        until a compaction. exact: counts every row, in a Versioned store every key that has a value
        now; a large store needs a longer `timeout_s`.
        """
        counting = calls.count(
            self._state,
            self._session.definition(),
            options,
            exact=exact,
            partitions=partitions,
        )
        return self._session.run(counting)

    def query(
        self,
        type: str,  # noqa: A002 KIP-796's word.
        *,
        partitions: Sequence[int] | None = None,
        options: ReadOptions = DEFAULTS,
        execution_info: bool = False,
        limit: int | None = None,
        times: str | None = None,
        cursor: str | None = None,
        members: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> StateQueryResult:
        """An IQv2 query by Kafka's names: `query("RangeQuery", lower="a", upper="m")`.

        limit: the most rows, by default 1000; `range` reads more rows in pages.
        times: the form of times in the answer, "millis" (the default) or "rfc3339".
        cursor: that of the last result, to continue the same query.
        members: more fields of the query, also fields with the name of a parameter here.
        """
        request = requests.query_request(
            self._session.definition(),
            requests.query_members(type, fields, members),
            partitions,
            options,
            execution_info=execution_info,
            limit=limit,
            times=times,
            cursor=cursor,
        )
        return self._session.run(calls.query(self._state, request))

    def get_only_partition_result(
        self,
        type: str,  # noqa: A002
        *,
        options: ReadOptions = DEFAULTS,
        **fields: Any,
    ) -> PartitionResult | None:
        """The only result that is not null; raises a partition's failure."""
        result = self.query(type, options=options, **fields)
        return result.get_only_partition_result()
