"""Decides which replicas have other rows than most of them. Pure."""

from collections import Counter
from collections.abc import Mapping

from qss_core.model import Ordinal


def odd_ones(digests: Mapping[Ordinal, bytes]) -> list[Ordinal] | None:
    """The replicas without the digest that more than half have; None where no digest is such.

    Of two unlike replicas nobody can tell which one is right.
    """
    digest, votes = Counter(digests.values()).most_common(1)[0]
    if 2 * votes <= len(digests):
        return None
    return sorted(pod for pod, other in digests.items() if other != digest)
