"""The chart as the tests install it."""

from collections.abc import Mapping

from e2e.environment import CHART, Images
from e2e.kubectl import Cluster

RELEASE = "qss"
OPERATOR = f"deployment/{RELEASE}-queryable-state"
OPERATOR_PODS = ("pods", "--selector", "app.kubernetes.io/name=queryable-state-operator")


def install(
    system: Cluster, images: Images, *options: str, values: Mapping[str, str] | None = None
) -> str:
    """Installs or upgrades the release, and waits until all of it runs."""
    given = {
        "image.repository": _repository(images.operator),
        "image.tag": _tag(images.operator),
        "storeImage.repository": _repository(images.store),
        "storeImage.tag": _tag(images.store),
        **(values or {}),
    }
    sets = [f"--set={name}={value}" for name, value in given.items()]
    return system.helm(
        "upgrade",
        "--install",
        RELEASE,
        str(CHART),
        # An earlier run, or a hand, may have made the CRD.
        "--take-ownership",
        "--wait",
        "--timeout=120s",
        *sets,
        *options,
    )


def leader(system: Cluster) -> str:
    """The pod that holds the Lease."""
    lease = system.get("lease", f"{RELEASE}-queryable-state")
    holder: str = lease["spec"].get("holderIdentity", "")
    return holder.partition("_")[0]


def _repository(image: str) -> str:
    return image.rpartition(":")[0]


def _tag(image: str) -> str:
    return image.rpartition(":")[2]
