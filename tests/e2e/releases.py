"""Installs the chart, and reads the state of the release."""

from collections.abc import Mapping
from pathlib import Path

from e2e.environment import CHART, Images
from e2e.kubectl import Cluster
from qss_testing.waiting import wait_until

RELEASE = "qss"
OWN_NAMESPACES = "qss-e2e-"
OPERATOR = f"deployment/{RELEASE}-queryable-state"
_CLUSTER_KINDS = "clusterrole,clusterrolebinding"
_OWN_KINDS = "all,lease,role,rolebinding,networkpolicy,pdb,configmap,secret,serviceaccount"
_USUAL = {"configmap/kube-root-ca.crt", "serviceaccount/default"}
OPERATOR_PODS = ("pods", "--selector", "app.kubernetes.io/name=queryable-state-operator")


def install(
    system: Cluster,
    images: Images,
    *options: str,
    values: Mapping[str, str] | None = None,
    chart: Path = CHART,
) -> str:
    """Installs or upgrades the release, and waits until all of it runs."""
    _check_no_other_release(system)
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
        str(chart),
        # An earlier run or a person may have made the CRD.
        "--take-ownership",
        "--wait",
        "--timeout=120s",
        *sets,
        *options,
    )


def _check_no_other_release(system: Cluster) -> None:
    """Two releases would change the same stores, and the tests delete their release."""
    crd = system.find("crd", "queryablestatestores.queryablestate.dev") or {"metadata": {}}
    owner = crd["metadata"].get("annotations", {})
    name = owner.get("meta.helm.sh/release-name", "")
    namespace = owner.get("meta.helm.sh/release-namespace", "")
    if not namespace or namespace.startswith(OWN_NAMESPACES):
        return
    lives = name in system.within(namespace).helm("list", "--short").split()
    assert not lives, (
        f"this cluster has the release {name} in the namespace {namespace}: the tests would take "
        "its stores over. Use another cluster, or uninstall it"
    )


def holder(system: Cluster) -> str:
    """The identity in the Lease, which is new for each process; empty if no process leads."""
    lease = system.get("lease", f"{RELEASE}-queryable-state")
    identity: str = lease.get("spec", {}).get("holderIdentity", "")
    return identity


def leader(system: Cluster) -> str:
    """Waits until a pod holds the Lease; returns the name of the pod."""

    def pod() -> str | None:
        name = holder(system).partition("_")[0]
        return name if name in running(system) else None

    return wait_until(pod, 60.0)


def running(system: Cluster) -> list[str]:
    """The operator's pods that are not being deleted."""
    return [
        one["metadata"]["name"]
        for one in system.items(*OPERATOR_PODS)
        if "deletionTimestamp" not in one["metadata"]
    ]


def metrics(system: Cluster) -> list[str]:
    """The lines of the metrics of the leader."""
    path = f"/api/v1/namespaces/{system.namespace}/pods/{leader(system)}:8082/proxy/metrics"
    return system.kubectl("get", "--raw", path).splitlines()


def own_objects(system: Cluster) -> set[str]:
    """The objects in the release's namespace, without those that every namespace has."""
    return set(system.kubectl("get", _OWN_KINDS, "--output", "name").split()) - _USUAL


def kept_objects(system: Cluster) -> set[str]:
    """The objects that stay without a release, since callers and stores need them."""
    pods = f"{system.namespace}-qss-queryable-state-store-pods"
    rights = "rbac.authorization.k8s.io"
    roles = ("view", "edit", "scale", "reader", "writer")
    return {
        f"clusterrole.{rights}/{pods}",
        f"clusterrolebinding.{rights}/{pods}",
        *(f"clusterrole.{rights}/queryablestate-{role}" for role in roles),
    }


def cluster_objects(cluster: Cluster) -> set[str]:
    """The objects of any release outside of namespaces."""
    found = cluster.kubectl("get", _CLUSTER_KINDS, "--output", "name").split()
    return {one for one in found if "quer" in one or "qss" in one}


def _repository(image: str) -> str:
    return image.rpartition(":")[0]


def _tag(image: str) -> str:
    return image.rpartition(":")[2]
