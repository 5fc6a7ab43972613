"""`Store` and `AsyncStore` refuse invalid arguments, and describe themselves."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

import pytest

from qss_client import AsyncStore, ReadOptions, Store
from qss_client.http.retries import RetryLimits
from qss_core.errors import MalformedRequestError, StoreError
from qss_core.model import Isolation
from qss_testing.clients.clients import AnyClient
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import write_values

Connect = Callable[[], Awaitable[AnyClient]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods")) as cluster:
        write_values(cluster.url, cluster.store, {"a1": 1})
        yield cluster


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest, cluster: PodCluster) -> AsyncIterator[Connect]:
    clients: list[AnyClient] = []

    async def make() -> AnyClient:
        clients.append(AnyClient(request.param, cluster.url, cluster.store))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


async def test_a_limit_is_a_number_of_rows(connect: Connect) -> None:
    client = await connect()
    for limit in ("5", -1, 1.5, True, -(10**5000)):
        with pytest.raises(MalformedRequestError, match=r"limit: a whole number of rows"):
            await client.range(limit=limit)
        with pytest.raises(MalformedRequestError, match=r"limit: a whole number of rows"):
            await client.query("RangeQuery", limit=limit)
    assert await client.range(limit=0) == []
    assert await client.all("prefix", "a", limit=0) == []
    # The body of a query is the pod's, for which a limit is one row at least.
    with pytest.raises(MalformedRequestError, match="limit"):
        await client.query("PrefixQuery", prefix="a", limit=0)


async def test_a_text_is_one_key_and_no_list_of_its_letters(connect: Connect) -> None:
    client = await connect()
    for keys in ("abc", b"abc", 7, {"a1": 1}):
        with pytest.raises(MalformedRequestError, match="keys: a list of keys"):
            await client.get_many(keys)  # type: ignore[arg-type]
    rows = await client.get_many(key for key in ("a1", "nope"))  # type: ignore[arg-type]
    assert [row and row.key for row in rows] == ["a1", None]


async def test_options_are_read_options(connect: Connect) -> None:
    client = await connect()
    wrong: Any = {"timeout_s": 3}
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: client.get("a1", wrong),
        lambda: client.get_many(["a1"], wrong),
        lambda: client.count(wrong),
        lambda: client.range(options=wrong),
        lambda: client.query("RangeQuery", options=wrong),
        lambda: client.all("windows", options=wrong),
        lambda: client.call("window", "a1", 0, wrong),
        lambda: client.call("version", "a1", 0, wrong),
    ]
    for call in calls:
        with pytest.raises(MalformedRequestError, match=r"options: a ReadOptions"):
            await call()
    for seconds in ("3", None, True, float("nan")):
        with pytest.raises(MalformedRequestError, match="timeout_s: seconds"):
            ReadOptions(timeout_s=seconds)  # type: ignore[arg-type]
    for large in (10**5000, 1e99, float("inf")):
        with pytest.raises(MalformedRequestError, match="max_staleness_s: at most 1000000000 s"):
            ReadOptions(max_staleness_s=large)
    with pytest.raises(MalformedRequestError, match="READ_UNCOMMITTED, not 'READ'"):
        ReadOptions(isolation=cast("Isolation", "READ"))
    with pytest.raises(MalformedRequestError, match="partition: a whole number, not '0'"):
        ReadOptions(partition=cast("int", "0"))


async def test_a_choice_is_true_or_false(connect: Connect) -> None:
    """A text such as "no" would be taken for a yes."""
    client, wrong = await connect(), cast("bool", "no")
    with pytest.raises(MalformedRequestError, match="exact: True or False, not 'no'"):
        await client.count(exact=wrong)
    with pytest.raises(MalformedRequestError, match="execution_info: True or False"):
        await client.query("RangeQuery", execution_info=wrong)
    with pytest.raises(MalformedRequestError, match="require_active: True or False"):
        ReadOptions(require_active=wrong)


async def test_partitions_are_a_list_of_whole_numbers(connect: Connect) -> None:
    client = await connect()
    for partitions in ({0: 1}, [True], ["0"], [], 0, "0"):
        for ask in (
            lambda given: client.query("RangeQuery", partitions=given),
            lambda given: client.range(partitions=given),
            lambda given: client.count(partitions=given),
        ):
            with pytest.raises(MalformedRequestError, match="partitions: "):
                await ask(partitions)


async def test_the_members_of_a_query_are_json(connect: Connect) -> None:
    client = await connect()
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(MalformedRequestError, match="members: a dict"):
        await client.query("RangeQuery", members=[1])
    with pytest.raises(MalformedRequestError, match="type: a text, not 5"):
        await client.query(cast("str", 5))
    for value, why in ((deep, "nested too deeply"), ({1}, "cannot be JSON"), (1e999, "JSON")):
        with pytest.raises(MalformedRequestError, match=why):
            await client.query("RangeQuery", members={"lower": value})


@pytest.mark.parametrize("seconds", ["x", None, -1, float("nan"), float("inf"), True])
def test_limits_are_seconds(seconds: Any) -> None:
    with pytest.raises(MalformedRequestError, match="deadline_s: "):
        RetryLimits(deadline_s=seconds)
    with pytest.raises(MalformedRequestError, match="first_contact_s: "):
        RetryLimits(first_contact_s=seconds)


@pytest.mark.parametrize("kind", [Store, AsyncStore])
@pytest.mark.parametrize(
    "wrong",
    [
        *({"url": 5}, {"url": {"http://127.0.0.1:1": 1}}, {"store": "../x"}, {"store": "Words"}),
        *({"token": 5}, {"token": ["x"]}, {"token_file": 5}, {"token_file": ""}, {"ca_file": 5}),
        *({"limits": 5}, {"decimal": "x"}, {"raw": "x"}, {"direct": "no"}, {"monotonic": 1}),
    ],
    ids=str,
)
def test_a_client_is_made_of_what_it_can_use(kind: type, wrong: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequestError):
        kind(**{"url": "http://127.0.0.1:1", "store": "words", **wrong})


async def test_a_client_that_was_closed_says_so(connect: Connect) -> None:
    client = await connect()
    assert await client.get("a1") is not None
    await client.close()
    with pytest.raises(StoreError, match="was closed: make another one"):
        await client.get("a1")


async def test_a_client_says_what_it_is(connect: Connect, cluster: PodCluster) -> None:
    client = await connect()
    assert repr(client.sync or client.other) in (
        f"Store('{cluster.url}', 'words')",
        f"AsyncStore('{cluster.url}', 'words')",
    )
