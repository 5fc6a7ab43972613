"""One cluster for all tests, cleaned of earlier runs; each module has a namespace."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.clients import PodClient, start_client
from e2e.environment import (
    CRD,
    Images,
    Tell,
    alone,
    find_cluster,
    find_images,
    find_next_store_image,
    is_own_bed,
)
from e2e.kubectl import Cluster
from e2e.namespaces import clean, fresh_namespace
from e2e.releases import install
from e2e.standby_store import Used, used_by

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests that break nodes or the API server, unless the cluster is the test bed."""
    mine = [item for item in items if _HERE in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.e2e)
    if not is_own_bed():
        breaking = [item for item in mine if "own_bed" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=breaking)
        items[:] = [item for item in items if item not in breaking]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster, cleaned of earlier runs."""
    with alone():
        found = find_cluster()
        clean(found)
        yield found


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    """The images, which are on the nodes."""
    return find_images()


@pytest.fixture(scope="session")
def next_store_image(images: Images) -> str:
    """Another image of the store, which is on the nodes, too."""
    return find_next_store_image()


@pytest.fixture(scope="session")
def own_bed() -> None:
    """Marks the tests that break the cluster itself."""


@pytest.fixture(scope="session")
def crd(cluster: Cluster) -> None:
    """The CRD of this tree."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRD))
    cluster.wait("crd/queryablestatestores.queryablestate.dev", "condition=Established")


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster, in a namespace for this module only."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    with fresh_namespace(cluster, f"qss-e2e-{name}") as made:
        yield made


@pytest.fixture(scope="module")
def own_operator(cluster: Cluster, namespace: Cluster, images: Images) -> Iterator[Cluster]:
    """The namespace of an operator that has rights in this module's namespace only."""
    with fresh_namespace(cluster, f"{namespace.namespace}-system") as made:
        install(made, images, values={"watch.namespaces": f"{{{namespace.namespace}}}"})
        yield made
        namespace.kubectl("delete", "qss", "--all", "--timeout=120s", timeout_s=130)


@pytest.fixture(scope="module")
def here(own_operator: Cluster, namespace: Cluster) -> Cluster:
    """This module's namespace, whose stores the own operator looks after."""
    return namespace


@pytest.fixture(scope="module")
def client(own_operator: Cluster, namespace: Cluster, images: Images) -> PodClient:
    """A pod beside the stores of this module's namespace, which writes and reads them."""
    return start_client(namespace, images.store)


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Prints a line at once, also if the test passes."""

    def show(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")

    return show


@pytest.fixture
def used(here: Cluster, client: PodClient, tell: Tell, request: pytest.FixtureRequest) -> Used:
    """Writes and reads the store with standbys while a block runs, and checks all answers."""
    return partial(used_by, here, client, lambda line: tell(f"{request.node.name}: {line}"))
