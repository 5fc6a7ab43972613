"""`qss mirror --print-stores` prints stores that take the parts of a state as they are."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_client.cli.main import main
from qss_operator.resources.validation import validate_resource
from qss_spark.mirroring.stores import fitting_stores, has_windows, mirror_file_of, name_of
from qss_spark.mirroring.wanted_copies import read_wanted
from qss_spark.state.inventory import Inventory
from qss_spark.state.types import ColumnType, Field, Struct

FILES = Path(__file__).parents[2] / "contract" / "spark_state" / "4.3.0"
Printed = Callable[[str], tuple[str, list[dict[str, Any]]]]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[str], Path]:
    def unpacked(name: str) -> Path:
        directory = tmp_path / "My Query_1"
        with zipfile.ZipFile(FILES / f"{name}.zip") as archive:
            archive.extractall(directory)
        return directory

    return unpacked


@pytest.fixture
def printed(checkpoint: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> Printed:
    """The text that is printed for a checkpoint, and its documents."""

    def run(name: str) -> tuple[str, list[dict[str, Any]]]:
        with pytest.raises(SystemExit) as ended:
            main(["mirror", str(checkpoint(name)), "--print-stores"])
        assert not ended.value.code
        text = capsys.readouterr().out
        return text, list(yaml.safe_load_all(text))

    return run


def test_parts_whose_names_differ_in_what_a_store_cannot_have_get_other_stores(
    checkpoint: Callable[[str], Path],
) -> None:
    found = Inventory(checkpoint("processor-rocksdb"))
    found.items = [replace(found.items[0], part=part) for part in ("Val", "val-", "val_")]
    stores = fitting_stores(found, "q", is_local=True)
    assert [one.name for one in stores] == ["q-val", "q-val-2", "q-val-3"]
    assert [one["store"] for one in yaml.safe_load(mirror_file_of(stores, "q"))["stores"]] == [
        "q-val",
        "q-val-2",
        "q-val-3",
    ]


@pytest.mark.parametrize(
    ("of", "is_spark"),
    [
        (Struct((Field("start", "timestamp"), Field("end", "timestamp"))), True),
        (Struct((Field("start", "timestamp_ntz"), Field("end", "timestamp_ntz"))), True),
        (Struct((Field("start", "string"), Field("end", "string"))), False),
        (Struct((Field("start", "timestamp"),)), False),
        ("string", False),
    ],
)
def test_only_a_column_of_sparks_windows_makes_a_window_store(
    of: ColumnType,
    is_spark: bool,
) -> None:
    assert has_windows([Field("window", of), Field("k", "string")]) is is_spark
    assert not has_windows([Field("window", of)])


@pytest.mark.parametrize(
    "name",
    [
        *("aggregation-hdfs", "windows-rocksdb", "sessions-hdfs", "dedup-rocksdb"),
        *("join-rocksdb-zstd", "processor-rocksdb", "ttl-rocksdb"),
    ],
)
def test_every_store_is_a_valid_resource_with_a_name_of_its_own(
    printed: Printed, name: str
) -> None:
    _, documents = printed(name)
    names = [validate_resource(one)["metadata"]["name"] for one in documents]
    assert len(set(names)) == len(documents) > 0
    assert all(one.startswith("my-query-1") for one in names)


@pytest.mark.parametrize("name", ["processor-rocksdb", "dedup-hdfs", "windows-hdfs"])
def test_keys_are_json_since_each_column_of_the_state_may_be_null(
    printed: Printed, name: str
) -> None:
    _, documents = printed(name)
    assert {one["spec"]["store"]["key"]["serde"] for one in documents} == {"json"}


def test_windows_have_the_size_of_the_query_and_sessions_a_note(printed: Printed) -> None:
    text, (window,) = printed("windows-hdfs")
    assert window["spec"]["store"]["window"] == {"size": "30s", "retention": "24h"}
    assert text.startswith("# Windows older than the retention are not kept")
    text, (session,) = printed("sessions-rocksdb")
    assert session["spec"]["store"]["type"] == "KeyValue"
    assert text.startswith("# A Session store (type: Session) needs the gap")


def test_the_file_of_the_copies_names_each_part_and_its_store(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    found = Inventory(checkpoint("join-hdfs"))
    stores = fitting_stores(found, "q", is_local=True)
    assert {one.resource["spec"]["access"]["authentication"] for one in stores} == {"None"}
    file = tmp_path / "mirror.yaml"
    file.write_text(mirror_file_of(stores, "q"))
    wanted = read_wanted(file)
    assert wanted.writer == "q"
    assert [(one.store, one.operator, one.part) for one in wanted.stores] == [
        ("q-left", 0, "left"),
        ("q-right", 0, "right"),
    ]


def test_no_file_is_left_where_one_of_them_cannot_be_made(
    checkpoint: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A second try would be refused for the file that the first one left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-query-1-mirror.yaml").touch()
    with pytest.raises(SystemExit) as ended:
        main(["mirror", str(checkpoint("dedup-hdfs")), "--up"])
    assert ended.value.code == 2
    assert "my-query-1-mirror.yaml cannot be made: File exists" in capsys.readouterr().err
    assert not (tmp_path / "my-query-1-stores.yaml").exists()


@pytest.mark.parametrize(
    ("text", "name"), [("Delays_2 of DC", "delays-2-of-dc"), ("-a-", "a"), ("é", "state")]
)
def test_a_name_is_one_of_kubernetes(text: str, name: str) -> None:
    assert name_of(text) == name
