"""An operator watches namespaces by name; a deleted namespace does not hold up the others."""

from collections.abc import Iterator

import pytest

from e2e.environment import Images
from e2e.kubectl import Cluster, CommandError
from e2e.namespaces import fresh_namespace
from e2e.releases import OPERATOR, cluster_objects, install, leader
from e2e.stores import is_ready, small_store
from qss_testing.waiting import wait_until

_DOOMED = "qss-e2e-watched-doomed"


@pytest.fixture
def doomed(cluster: Cluster) -> Iterator[Cluster]:
    with fresh_namespace(cluster, _DOOMED) as made:
        yield made


def test_a_deleted_namespace_stops_only_its_own_watch(
    cluster: Cluster, namespace: Cluster, doomed: Cluster, images: Images
) -> None:
    watched = f"{{{namespace.namespace},{_DOOMED},qss-e2e-watched-later}}"
    with fresh_namespace(cluster, "qss-e2e-watched-system") as system:
        install(system, images, values={"watch.namespaces": watched})
        for here in (namespace, doomed):
            here.apply(small_store("words"))
            here.until("qss/words", is_ready)

        # The store retains its volumes, so no finalizer holds the namespace.
        cluster.kubectl("delete", "namespace", _DOOMED, "--timeout=90s", timeout_s=100)
        namespace.apply(small_store("more"))
        namespace.until("qss/more", is_ready)
        system.kubectl("rollout", "restart", OPERATOR)
        system.kubectl("rollout", "status", OPERATOR, "--timeout=90s", timeout_s=100)
        namespace.apply(small_store("again"))
        namespace.until("qss/again", is_ready)

        said = f"the stores of the namespace {_DOOMED} are not watched"
        wait_until(lambda: said in system.kubectl("logs", leader(system)), 30.0)

        install(system, images, values={"watch.namespaces": watched, "operator.logLevel": "debug"})
        with fresh_namespace(cluster, "qss-e2e-watched-later") as later:
            install(system, images, values={"watch.namespaces": watched})
            later.apply(small_store("words"))
            later.until("qss/words", is_ready)
            later.kubectl("delete", "qss", "--all", "--timeout=60s", timeout_s=70)
        system.helm("rollback", "qss", "2", "--wait", "--timeout=120s")
        namespace.until("qss/words", is_ready)

        # Revision 1 makes the ClusterRole anew that this one is without, and then fails: it has a
        # Role in the deleted namespace.
        without_reviews = {"watch.namespaces": watched, "reviews.create": "false"}
        install(system, images, values=without_reviews)
        before = cluster_objects(cluster)
        with pytest.raises(CommandError, match=_DOOMED):
            system.helm("rollback", "qss", "1", "--cleanup-on-fail", "--wait", "--timeout=120s")
        assert cluster_objects(cluster) == before, "a failed rollback leaves nothing behind"
        install(system, images, values=without_reviews)
        assert cluster_objects(cluster) == before
        namespace.until("qss/words", is_ready)
        namespace.kubectl("delete", "qss", "--all", "--timeout=60s", timeout_s=70)
