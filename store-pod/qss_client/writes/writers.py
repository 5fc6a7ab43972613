"""Who writes a store, and deleting a writer that will not come back. Sync, for operators."""

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
    """All writers, by name; `url` is the query or the internal port of any pod, or of many.

    Needs the right to write where the store checks its callers. Writers are told of on the internal
    port alone; direct: it is the one that the pods name, else it is at `url`.
    """
    path = _path(http, url, store, limits, direct=direct)
    patience = Retrier(limits)
    while True:
        try:
            answer = http.get(path, WritersAnswer, _TIMEOUT_S, patience.telling)
        except StoreError as error:
            patience.after(error)
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
    """Forgets a writer and its batches; no row goes. What it was; None where an answer was lost.

    A query that writes under the name later begins anew: it takes no part of what the writer had
    written for its own, also where its checkpoint says so, and rows of a batch that was applied
    are then written once more. Raises UnknownWriterError, and WriterOpenError for a writer whose
    run may be alive, unless it is forced.
    """
    path = _path(http, url, store, limits, direct=direct)
    patience = Retrier(limits)
    target = f"{path}/{quote(writer, safe='')}?force={str(force).lower()}"
    is_repeated = False
    while True:
        try:
            answer = http.request("DELETE", target, timeout_s=_TIMEOUT_S, telling=patience.telling)
        except UnknownWriterError:
            if is_repeated:
                return None  # The request before did it.
            raise
        except StoreError as error:
            patience.after(error)
            is_repeated = True
        else:
            return decode(answer.body, WriterReport)


def _path(http: SyncHttp, url: Urls, store: str, limits: RetryLimits, *, direct: bool) -> str:
    """Of the writers, at the first internal port that answers for the store."""
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
    """The internal ports of the pods: first that of the pod which has the address `base`."""
    return [
        instance.changelog
        for instance in sorted(
            metadata.instances, key=lambda one: base not in (one.query, one.changelog)
        )
    ]
