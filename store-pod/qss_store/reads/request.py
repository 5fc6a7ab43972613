"""A parsed read: the store's codec, the plan and the options."""

from typing import Generic, TypeVar

import msgspec

from qss_core.queries.parameters import ReadOptions
from qss_store.reads.codec import Codec

Plan = TypeVar("Plan", covariant=True)


class ReadRequest(msgspec.Struct, Generic[Plan], frozen=True):  # Each read makes one.
    """A read of any number of partitions; a read of rows also has a limit and a cursor."""

    codec: Codec
    plan: Plan
    options: ReadOptions
    limit: int | None = None
    cursor: str | None = None
