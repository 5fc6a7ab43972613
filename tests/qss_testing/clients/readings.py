"""Reads states of a pod's replicas in its process, as a request does."""

from dataclasses import replace

from qss_core.formats.values import Format
from qss_core.model import PartitionId, Sequence
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.codec import codec_of
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read, read_prepared
from qss_store.replicas.pod import Pod


def open_reading(
    pod: Pod,
    options: ReadOptions | None = None,
    store_format: str = "",
    partition: int = 0,
    since: int = 0,
) -> Reading:
    """The state that a read of a partition gets, in the store's format or another one.

    The state is at least at the sequence `since`.
    """
    request = _request(pod, options, store_format)
    return read(pod, PartitionId(partition), request, _nothing, Sequence(since))[0]


async def prepared_reading(
    pod: Pod, options: ReadOptions | None = None, store_format: str = "", partition: int = 0
) -> Reading:
    """As `open_reading`, after the requested uncommitted rows were placed."""
    request = _request(pod, options, store_format)
    return (await read_prepared(pod, PartitionId(partition), request, _nothing))[0]


def _request(pod: Pod, options: ReadOptions | None, store_format: str) -> ReadRequest[None]:
    codec = codec_of(pod.registry.placed().definition, pod.indexing)
    codec = replace(codec, format=Format(store_format or codec.format))
    return ReadRequest(codec, None, options or ReadOptions())


def _nothing(_: Reading) -> None: ...
