"""The message on volumes with less free space than the pods keep back. Pure."""

from qss_core.text import listed
from qss_operator.planning.model import Observation

VOLUME_FULL = "VolumeFull"


def full_volumes_message(observation: Observation) -> str | None:
    """The full volumes with their sizes, and what to do; None where no volume is full."""
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
    some = any(volume.is_full for volume in full.values())
    waits = "every batch waits" if some else "larger batches wait"
    return f"{told}: reads are answered, and {waits} (DISK_FULL). To go on, {what}"
