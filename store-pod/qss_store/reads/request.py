"""One read as it was parsed: the store's codec, the plan, and what the request may be told."""

from typing import Generic, NamedTuple, TypeVar

from qss_core.queries.parameters import ReadOptions
from qss_store.reads.codec import Codec

Plan = TypeVar("Plan", covariant=True)


class ReadRequest(NamedTuple, Generic[Plan]):
    """A read of any number of partitions; rows also have a limit, and the cursor of a page."""

    codec: Codec
    plan: Plan
    options: ReadOptions
    limit: int | None = None
    cursor: str | None = None
