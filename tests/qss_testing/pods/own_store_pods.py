"""The guides' custom store type on real pods."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from qss_core.model import StoreDefinition, StoreId, StoreName
from qss_core.spec.resource import decode_spec, definition_of
from qss_testing.pods.extension_package import resource_of_guide
from qss_testing.pods.pod_process import PodCluster


def definition(**members: Any) -> StoreDefinition:
    """The definition for its pods."""
    spec = decode_spec(resource_of_guide()["spec"])
    name = resource_of_guide()["metadata"]["name"]
    made = definition_of(StoreName(name), StoreId(str(uuid.uuid4())), spec)
    return msgspec.structs.replace(made, **members)


@contextmanager
def running(directory: Path, pods: int, **members: Any) -> Iterator[PodCluster]:
    """Pods of the guides' store, with the package in `site`."""
    made = definition(**members)
    paths = [str(directory / "site"), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "QSS_FINISH_TIMEOUT_S": "2",
        "PYTHONDONTWRITEBYTECODE": "1",  # Two versions of a module may be from one second.
    }
    told = {name: getattr(made, name) for name in StoreDefinition.__struct_fields__}
    del told["name"], told["partitions"]
    with PodCluster(
        directory,
        pods=pods,
        partitions=made.partitions,
        store=made.name,
        environment=environment,
        **told,
    ) as cluster:
        yield cluster
