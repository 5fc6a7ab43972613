"""The message on volumes with less free space than the pods keep back. Pure."""

from collections.abc import Collection

from qss_core.text import listed
from qss_core.wire.replica_reports import FullVolume
from qss_operator.planning.model import Observation

VOLUME_FULL = "VolumeFull"


def full_volumes_message(observation: Observation) -> str | None:
    """The full volumes with their sizes, and the remedy; None where no volume is full."""
    full = {
        report.pod: report.full_volume
        for _, report in sorted(observation.reports.items())
        if report.full_volume is not None
    }
    if not full:
        return None
    told = listed([f"the volume of {pod} has {volume.words}" for pod, volume in full.items()])
    larger = "make it larger (spec.storage.size)"
    if observation.cluster.local_option is not None:
        larger = "give the state directory a larger volume"
    is_too_small = any(volume.is_too_small for volume in full.values())
    what = larger if is_too_small else f"free space, or {larger}"
    return f"{told}: reads are answered, and {_waiting(full.values())}. To go on, {what}"


def _waiting(full: Collection[FullVolume]) -> str:
    """The batches and copies that wait for space on these volumes."""
    if any(volume.is_full for volume in full):
        return "every batch waits (DISK_FULL)"
    batches = "larger batches wait (DISK_FULL)" if any(one.needed_bytes for one in full) else ""
    copies = "copies wait" if any(one.copy_bytes for one in full) else ""
    return " and ".join(one for one in (batches, copies) if one)
