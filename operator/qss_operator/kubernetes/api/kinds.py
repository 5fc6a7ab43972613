"""The kinds of objects that the operator reads or writes, and their paths."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The path of one object, or of their list: of all namespaces where none is given."""
        assert self.namespaced or namespace is None, f"{self.plural} have no namespace"
        assert name is None or namespace is not None or not self.namespaced, (
            "the path of an object needs its namespace"
        )
        assert subresource is None or name is not None, "a subresource is one object's"
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        assert all(part not in ("", ".", "..") for part in parts), f"no path: {parts}"
        return "/" + "/".join(quote(part, safe="") for part in parts)


STORES = Kind("queryablestate.dev", "v1alpha1", "queryablestatestores", "QueryableStateStore")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
PODS = Kind("", "v1", "pods", "Pod")
SERVICES = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS = Kind("", "v1", "secrets", "Secret")
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
# The core version: a patch of `count` and `lastTimestamp` repeats an event, and every tool shows
# that. events.k8s.io needs a series, which fewer tools show.
EVENTS = Kind("", "v1", "events", "Event")
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    namespaced=False,
)
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
