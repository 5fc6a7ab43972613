"""The chart as the tests install it."""

from collections.abc import Mapping

from e2e.environment import CHART, Images
from e2e.kubectl import Cluster
from qss_testing.waiting import wait_until

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
    """The pod that holds the Lease, as soon as there is one."""

    def holder() -> str | None:
        lease = system.get("lease", f"{RELEASE}-queryable-state")
        name: str = lease.get("spec", {}).get("holderIdentity", "").partition("_")[0]
        return name if name in running(system) else None

    return wait_until(holder, 60.0)


def running(system: Cluster) -> list[str]:
    """The operator's pods that are to stay."""
    return [
        one["metadata"]["name"]
        for one in system.items(*OPERATOR_PODS)
        if "deletionTimestamp" not in one["metadata"]
    ]


def metrics(system: Cluster) -> list[str]:
    """The lines that the leader shows to Prometheus."""
    path = f"/api/v1/namespaces/{system.namespace}/pods/{leader(system)}:8082/proxy/metrics"
    return system.kubectl("get", "--raw", path).splitlines()


def _repository(image: str) -> str:
    return image.rpartition(":")[0]


def _tag(image: str) -> str:
    return image.rpartition(":")[2]
