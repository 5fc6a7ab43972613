"""`store[key]` and `key in store`, and the arguments that both clients have."""

import inspect
from collections.abc import Iterator

import pytest

from qss_client import AsyncStore, Store
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import write_values


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods"), partitions=2) as cluster:
        write_values(cluster.url, cluster.store, {"a7": {"n": 7}})
        yield cluster


async def test_a_store_is_a_container_of_rows(cluster: PodCluster) -> None:
    with Store(cluster.url, cluster.store) as store:
        assert store["a7"] == store.get("a7")
        assert "a7" in store
        assert "never written" not in store
        with pytest.raises(KeyError, match="never written"):
            store["never written"]
        with pytest.raises(TypeError, match="not iterable"):
            iter(store)
    async with AsyncStore(cluster.url, cluster.store) as other:
        assert await other["a7"] == await other.get("a7")
        assert await other.contains("a7")
        assert not await other.contains("never written")
        with pytest.raises(KeyError, match="never written"):
            await other["never written"]
        # `in` could not wait for the answer.
        with pytest.raises(TypeError):
            "a7" in other  # type: ignore[misc]  # noqa: B015


def test_both_clients_have_the_same_arguments_and_defaults() -> None:
    names = [name for name in dir(Store) if not name.startswith("_")]
    assert {*names, "contains"} == {name for name in dir(AsyncStore) if not name.startswith("_")}
    methods = ["__init__", *(name for name in names if callable(getattr(Store, name)))]
    for name in methods:
        one, other = (inspect.signature(getattr(kind, name)) for kind in (Store, AsyncStore))
        assert one.parameters == other.parameters, name
