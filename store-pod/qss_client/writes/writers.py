"""Lists a store's writers, and deletes a writer that will not come back. Sync, for operators."""

from urllib.parse import quote

from qss_client.addresses import Urls, checked_urls
from qss_client.http.first_contact import first_answer
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import Retrier, SyncHttp
from qss_client.http.wait_warnings import WaitWarnings
from qss_core.errors import StoreError, UnknownWriterError
from qss_core.wire.messages import StoreMetadata, decode
from qss_core.wire.writer_reports import WriterReport, WritersAnswer

_TIMEOUT_S = 35.0  # A pod passes the request on, and waits for its coordinator.


def list_writers(
    http: SyncHttp,
    url: Urls,
    store: str,
    limits: RetryLimits = RetryLimits(),  # noqa: B008 it is frozen.
    *,
    direct: bool = True,
) -> tuple[WriterReport, ...]:
    """All writers, by name; `url` is the query or internal port of one or more pods.

    If the store checks its callers, the caller needs the right to write. Only the internal port
    lists writers. direct: ask the internal ports that the pods name; else ask `url`.
    """
    path = _path(http, url, store, limits, direct=direct)
    retrier = Retrier(limits)
    while True:
        try:
            answer = http.get(path, WritersAnswer, _TIMEOUT_S, retrier.telling)
        except StoreError as error:
            retrier.after(error)
        else:
            return answer.writers


def delete_writer(
    http: SyncHttp,
    url: Urls,
    store: str,
    writer: str,
    *,
    force: bool = False,
    limits: RetryLimits = RetryLimits(),  # noqa: B008 it is frozen.
    direct: bool = True,
) -> WriterReport | None:
    """Deletes a writer and its batches, and keeps its rows. Returns None if an answer was lost.

    A query that opens the name later begins anew, even if its checkpoint has applied batches: their
    rows are then written again. Raises UnknownWriterError, and without `force` WriterOpenError for
    a writer whose run may be alive.
    """
    path = _path(http, url, store, limits, direct=direct)
    retrier = Retrier(limits)
    target = f"{path}/{quote(writer, safe='')}?force={str(force).lower()}"
    is_repeated = False
    while True:
        try:
            answer = http.request("DELETE", target, timeout_s=_TIMEOUT_S, telling=retrier.telling)
        except UnknownWriterError:
            if is_repeated:
                return None  # An earlier request deleted the writer.
            raise
        except StoreError as error:
            retrier.after(error)
            is_repeated = True
        else:
            return decode(answer.body, WriterReport)


def _path(http: SyncHttp, url: Urls, store: str, limits: RetryLimits, *, direct: bool) -> str:
    """The path of the writers, at the first internal port that answers for the store."""
    name = quote(store, safe="")

    def asked(base: str, timeout_s: float, telling: WaitWarnings) -> tuple[str, StoreMetadata]:
        url = f"{base}/state/instances/{name}"
        return base, http.get(url, StoreMetadata, timeout_s, telling)

    base, metadata = first_answer(asked, checked_urls(url), store, limits)
    if direct:
        internal = internal_urls(metadata, base)
        if base != internal[0]:
            base, _ = first_answer(asked, internal, store, limits)
    return f"{base}/changelog/stores/{name}/writers"


def internal_urls(metadata: StoreMetadata, base: str) -> list[str]:
    """The internal ports of the pods, first that of the pod with the address `base`."""
    return [
        instance.changelog
        for instance in sorted(
            metadata.instances, key=lambda one: base not in (one.query, one.changelog)
        )
    ]
