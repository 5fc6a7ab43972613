"""Plans an IndexQuery: the bounds of a partition's index rows, in bytes. Pure."""

import hashlib
from dataclasses import dataclass

from qss_core.errors import UnknownQueryTypeError
from qss_core.queries.types import IndexQuery, Order
from qss_store.reads.codec import Codec, Shape
from qss_store.storage.index_keys import Index

_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """Index rows with lower <= row key < upper, in order or in reverse."""

    index: Index
    lower: bytes
    upper: bytes
    reverse: bool
    codec: Codec

    @property
    def shape(self) -> Shape:
        """The columns of a row in the answer."""
        return self.codec.shape

    @property
    def digest(self) -> bytes:
        """A digest of the query; a cursor with another digest is refused.

        The digest omits the version of the store's type: index rows may come and go between two
        pages, and between two pods of a rolling update, but they keep their order.
        """
        named = f"{self.index.name} {self.index.serde.name}"
        hasher = hashlib.blake2b(named.encode(), digest_size=_DIGEST_BYTES)
        for bound in (self.lower, self.upper):
            hasher.update(len(bound).to_bytes(8, "big"))
            hasher.update(bound)
        # The digest omits the shape: a scan continues after the store's format has changed.
        hasher.update(bytes((self.reverse,)))
        return hasher.digest()


def plan_index_query(query: IndexQuery, codec: Codec) -> IndexPlan:
    """The plan. Raises MalformedRequestError, RangeReversedError and UnknownQueryTypeError."""
    indexing = codec.indexing
    if indexing is None:
        raise UnknownQueryTypeError(
            f"store {codec.name} has no indexes: IndexQuery needs a store of type Custom, and a "
            "pod that has the package of its type"
        )
    index = indexing.index(query.index)
    lower, upper = index.bounds(query.lower, query.upper)
    return IndexPlan(
        index=index,
        lower=lower,
        upper=upper,
        reverse=query.order is Order.DESCENDING,
        codec=codec,
    )
