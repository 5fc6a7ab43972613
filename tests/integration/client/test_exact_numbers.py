"""Numbers are read as they were written: over HTTP, by the clients, by `qss`."""

from collections.abc import Iterator
from decimal import Decimal

import msgspec
import pytest

from qss_client.cli.main import main
from qss_testing.clients.clients import AnyClient
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

AMOUNT = "12345678901234567890.123456789"
VALUE = f'{{"amount": {AMOUNT}, "far":1e400, "price":1.10, "id":{"7" * 5000}}}'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods")) as cluster:
        with Writer(cluster.url, cluster.store) as job:
            job.write([Record("a", msgspec.Raw(VALUE.encode()), 1000)])
        yield cluster


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_client_gives_decimals_where_it_is_asked(cluster: PodCluster, kind: str) -> None:
    client = AnyClient(kind, cluster.url, cluster.store, decimal=True)
    try:
        row = await client.get("a")
        many = await client.get_many(["a"])
        scanned = await client.range()
        only = await client.only("KeyQuery", key="a")
    finally:
        await client.close()
    assert row is not None
    assert many[0] is not None
    assert only is not None
    for value in (row.value, many[0].value, scanned[0].value, only.result["value"]):
        assert value["amount"] == Decimal(AMOUNT)
        assert (str(value["price"]), value["far"]) == ("1.10", Decimal("1e400"))


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_client_gives_the_bytes_where_it_is_asked(cluster: PodCluster, kind: str) -> None:
    client = AnyClient(kind, cluster.url, cluster.store, raw=True)
    try:
        row = await client.get("a")
    finally:
        await client.close()
    assert row is not None
    assert bytes(row.value).decode() == VALUE


COMMANDS = [("get", "words", "a"), ("scan", "words"), ("query", "words", "KeyQuery", "key=a")]


@pytest.mark.parametrize("command", COMMANDS, ids=["get", "scan", "query"])
def test_qss_prints_what_came(
    cluster: PodCluster, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for output in ("ndjson", "json", "table"):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--url", cluster.url, "-o", output])
        out, err = capsys.readouterr()
        assert (ended.value.code or 0, err) == (0, "")
        # The output is indented, so the space inside a value differs.
        assert VALUE.replace(" ", "") in "".join(out.split())
        assert output == "json" or VALUE in out
