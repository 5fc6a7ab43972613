"""The names and labels of a store's children, and the addresses of its pods."""

from dataclasses import dataclass
from typing import Any

from qss_core.model import Ordinal, PodAddress, PodName, StoreName
from qss_operator.planning.model import Endpoints

GROUP = "queryablestate.dev"
STORE_LABEL = f"{GROUP}/store"
WRITER_LABEL = f"{GROUP}/writer"
TEMPLATE_ANNOTATION = f"{GROUP}/template"
ACCOUNT_ANNOTATION = f"{GROUP}/service-account"
FINALIZER = f"{GROUP}/volumes"
ORDINAL_LABEL = "apps.kubernetes.io/pod-index"
VOLUME = "data"

QUERY_PORT = 8080
CHANGELOG_PORT = 8081
OPS_PORT = 8082


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreNames:
    """The names of one store's children; `scheme` is https where the store has a certificate."""

    namespace: str
    store: StoreName
    scheme: str = "http"

    @property
    def pods_service(self) -> str:
        """The headless Service: a stable address for each pod."""
        return f"{self.store}-pods"

    @property
    def service_account(self) -> str:
        return f"{self.store}-pods"

    @property
    def selector(self) -> str:
        """The label selector of pods and volumes."""
        return f"{STORE_LABEL}={self.store}"

    def labels(self) -> dict[str, str]:
        """The labels of every child."""
        return {
            STORE_LABEL: self.store,
            "app.kubernetes.io/name": "queryable-state-store",
            "app.kubernetes.io/instance": self.store,
            "app.kubernetes.io/managed-by": "queryable-state-operator",
        }

    def pod(self, ordinal: int) -> PodName:
        return PodName(f"{self.store}-{ordinal}")

    def claim(self, ordinal: int) -> str:
        """The name of a pod's volume claim, as a StatefulSet makes it."""
        return f"{VOLUME}-{self.pod(ordinal)}"

    def is_claim(self, name: str) -> bool:
        """Whether a volume claim of that name belongs to the store."""
        number = name.rpartition("-")[2]
        return number.isdecimal() and name == self.claim(int(number))

    def address(self, ordinal: int) -> PodAddress:
        """The address of a pod for the other pods and for clients in the cluster."""
        host = f"{self.pod(ordinal)}.{self.pods_service}.{self.namespace}.svc"
        return self._address(ordinal, host)

    def address_by_ip(self, ordinal: int, ip: str) -> PodAddress:
        """The address of a pod for the operator: DNS has the name some seconds after the start."""
        return self._address(ordinal, f"[{ip}]" if ":" in ip else ip)

    def endpoints(self) -> Endpoints:
        service = f"{self.store}.{self.namespace}.svc"
        pod = f"{{pod}}.{self.pods_service}.{self.namespace}.svc"
        return Endpoints(
            query=f"{self.scheme}://{service}:{QUERY_PORT}",
            changelog=f"{self.scheme}://{service}:{CHANGELOG_PORT}",
            pod_query=f"{self.scheme}://{pod}:{QUERY_PORT}",
            pod_changelog=f"{self.scheme}://{pod}:{CHANGELOG_PORT}",
        )

    def _address(self, ordinal: int, host: str) -> PodAddress:
        return PodAddress(
            ordinal=Ordinal(ordinal),
            name=self.pod(ordinal),
            query=f"{self.scheme}://{host}:{QUERY_PORT}",
            changelog=f"{self.scheme}://{host}:{CHANGELOG_PORT}",
        )


def store_of(labels: dict[str, Any] | None) -> str | None:
    """The store of a child, by its label."""
    return (labels or {}).get(STORE_LABEL)
