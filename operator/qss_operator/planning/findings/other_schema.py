"""Tells the way back where pods refuse a schema that is not that of their rows. Pure."""

from qss_core.spec.fixed_members import WRITTEN_WITH
from qss_operator.planning.annotations import how_to_restart
from qss_operator.planning.model import Finding


def with_way_back(finding: Finding, local_option: str | None) -> Finding:
    """The finding; its message begins with the remedy if it is about the schema.

    `local_option` is None on Kubernetes. The remedy comes first: a message has a limited length,
    and many partitions say the same.
    """
    status, reason, message = finding
    if WRITTEN_WITH not in message:
        return finding
    if local_option is None:
        way = (
            "make the resource anew with its schema as it was (set storage.whenDeleted: Retain "
            "first, otherwise its volumes are deleted with it), or delete the volume"
        )
    else:
        way = f"{how_to_restart(local_option)}, this store's as it was; nothing is lost"
    return status, reason, f"{way}: {message}"
