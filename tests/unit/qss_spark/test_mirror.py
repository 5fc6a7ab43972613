"""`qss mirror` lists what a checkpoint has, and says what it cannot read."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qss_client.cli.main import main
from qss_core.errors import (
    NotActiveError,
    NotPresentError,
    NotReadyError,
    StaleEpochError,
    StaleWriterError,
    StoreError,
    StoreNotFoundError,
    WrongStoreError,
)
from qss_spark.mirroring.driver import may_pass

FILES = Path(__file__).parents[2] / "contract" / "spark_state" / "4.3.0"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `qss mirror`: the exit code and both outputs."""

    def run_it(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["mirror", *map(str, arguments)])
        code = ended.value.code
        shown = capsys.readouterr()
        return code if isinstance(code, int) else 0, shown.out, shown.err

    return run_it


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NotReadyError, True),
        (NotActiveError, True),
        (NotPresentError, True),
        (StaleEpochError, True),
        (StaleWriterError, False),
        (StoreNotFoundError, False),
        (WrongStoreError, False),
    ],
)
def test_a_mirror_goes_on_while_a_partition_has_no_active(
    error: type[StoreError], *, expected: bool
) -> None:
    assert may_pass(error("not now")) is expected


def unpacked(directory: Path, name: str) -> Path:
    with zipfile.ZipFile(FILES / f"{name}.zip") as archive:
        archive.extractall(directory)
    return directory


def files_in(directory: Path) -> dict[str, bytes]:
    found = (one for one in directory.rglob("*") if one.is_file())
    return {str(one.relative_to(directory)): one.read_bytes() for one in found}


def test_a_table_has_the_variables_of_a_processor(tmp_path: Path, run: Run) -> None:
    before = files_in(unpacked(tmp_path, "processor-rocksdb"))
    code, out, _ = run(tmp_path)
    assert code == 0
    assert out.startswith("batch 3, RocksDB state in 2 partitions, lz4\n\n")
    rows = [line.split() for line in out.splitlines()[2:]]
    assert rows[0] == ["OPERATOR", "NAME", "PART", "KEY", "VALUE", "ROWS"]
    assert {row[2]: row[-1] for row in rows[1:]} == {"delays": "5", "last": "4", "ports": "15"}
    assert files_in(tmp_path) == before


def test_a_document_has_the_columns_of_both_sides_of_a_join(tmp_path: Path, run: Run) -> None:
    code, out, _ = run(unpacked(tmp_path, "join-hdfs"), "-o", "json")
    documents: list[dict[str, Any]] = json.loads(out)
    assert code == 0
    assert [one["part"] for one in documents] == ["left", "right"]
    assert documents[1] == {
        "operator": 0,
        "name": "join",
        "part": "right",
        "key": "field0 string, index bigint",
        "value": documents[1]["value"],
        "rows": documents[1]["rows"],
    }
    assert documents[1]["value"].endswith(", matched boolean")


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("", "", "n bigint, d double, ttlExpirationMs bigint"),
        # Values of another form, and variables that have no time to live, are shown as they are.
        ("ttlExpirationMs", "ttlExpirationUs", "value struct<n:bigint,d:double>, ttlExpirationUs"),
        ('ttlEnabled\\":true', 'ttlEnabled\\":false', "value struct<n:bigint,d:double>, ttlE"),
    ],
)
def test_values_with_a_time_to_live_have_their_expiry_beside_them(
    tmp_path: Path, run: Run, old: str, new: str, shown: str
) -> None:
    unpacked(tmp_path, "ttl-rocksdb")
    for file in (tmp_path / "state" / "0").glob("_*/**/*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(old.encode(), new.encode()))
    code, out, _ = run(tmp_path, "-o", "json")
    values = {one["part"]: one["value"] for one in json.loads(out)}
    assert code == 0
    assert values["last"].startswith(shown)


def test_a_variable_of_a_type_that_is_not_known_is_named_and_the_others_are_listed(
    tmp_path: Path, run: Run
) -> None:
    unpacked(tmp_path, "processor-rocksdb")
    (schema,) = (tmp_path / "state" / "0" / "_stateSchema" / "default").iterdir()
    known, unknown = b'"name":"c","type":"long"', b'"name":"c","type":"time"'
    schema.write_bytes(schema.read_bytes().replace(known, unknown))
    code, out, _ = run(tmp_path, "-o", "json")
    found = {one["part"]: one for one in json.loads(out)}
    assert (code, found["last"]["rows"], found["delays"]["rows"]) == (1, 4, 5)
    said = "column c: the type time cannot be read from state"
    assert found["ports"]["reason"] == said
    code, out, _ = run(tmp_path, "--print-stores")
    assert (code, out.count("kind: "), "ports" in out) == (0, 2, False)
    for option in ("--part", "--variable", "--side"):
        code, _, err = run(tmp_path, "--store", "s", "--url", "http://127.0.0.1:9", option, "ports")
        assert (code, err.strip().endswith(said)) == (2, True)


def test_a_damaged_file_is_named_and_the_rest_is_listed(tmp_path: Path, run: Run) -> None:
    unpacked(tmp_path, "join-hdfs")
    damaged = max((tmp_path / "state" / "0" / "1" / "left-keyWithIndexToValue").glob("*.*"))
    damaged.write_bytes(damaged.read_bytes()[:-30])
    code, out, _ = run(tmp_path, "-o", "json")
    left, right = json.loads(out)
    assert code == 1
    assert left["rows"] is None
    assert left["reason"].startswith(f"{damaged}: ")
    assert right["rows"] > 0


def test_changes_that_are_gone_are_told(tmp_path: Path, run: Run) -> None:
    unpacked(tmp_path, "sessions-rocksdb")
    for file in (tmp_path / "state" / "0" / "0").glob("*.*"):
        if file.is_file():
            file.unlink()
    code, out, _ = run(tmp_path, "-o", "json")
    assert code == 1
    assert (
        "lacks the changes of version 1: Spark keeps only the newest"
        in json.loads(out)[0]["reason"]
    )


def test_a_query_without_state_is_told(tmp_path: Path, run: Run) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    settings = {"conf": {"spark.sql.shuffle.partitions": "2"}}
    (tmp_path / "offsets" / "0").write_text(f"v1\n{json.dumps(settings)}\n")
    code, out, _ = run(tmp_path)
    assert (code, out.splitlines()[-1]) == (0, "the query keeps no state")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "is no checkpoint of a streaming query: it has no commits and no offsets"),
        ({"offsets/0": "v1", "commits/.0": ""}, "no batch of "),
        ({"commits/0": "v1\n{}", "offsets/1": "v1"}, "offsets/0 is not there: Spark keeps only"),
        ({"commits/0": "v9\n{}", "offsets/0": "v1\n{}"}, "offsets/0 has no settings"),
        ({"commits/0": "v1\n{}", "offsets/0": "v7\n{}"}, "offsets/0 has a form that is not known"),
    ],
)
def test_what_is_no_checkpoint_is_refused(
    tmp_path: Path, run: Run, files: dict[str, str], said: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code, out, err = run(tmp_path)
    assert (code, out) == (2, "")
    assert said in err
    assert run(tmp_path / "nothing")[2].endswith("nothing is no directory\n")


def test_a_url_is_that_of_a_directory_or_refused(tmp_path: Path, run: Run) -> None:
    unpacked(tmp_path, "dedup-hdfs")
    assert [run(f"file://{tmp_path}")[0], run(f"file:{tmp_path}")[0]] == [0, 0]
    code, out, err = run("s3://bucket/delays")
    assert (code, out) == (2, "")
    assert "s3:/bucket/delays is not in a directory of this machine" in err
    assert "keep its checkpoint on a volume, and give the directory" in err


def test_a_directory_of_checkpoints_lists_each_of_them(tmp_path: Path, run: Run) -> None:
    for name in ("dedup-hdfs", "join-hdfs", "other"):
        (tmp_path / name).mkdir()
        if name != "other":
            unpacked(tmp_path / name, name)
    code, out, err = run(tmp_path)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.endswith(":")] == [
        f"{tmp_path / 'dedup-hdfs'}:",
        f"{tmp_path / 'join-hdfs'}:",
    ]
    code, out, err = run(tmp_path, "--print-stores")
    assert (code, out) == (2, "")
    named = f"{tmp_path / 'dedup-hdfs'}, {tmp_path / 'join-hdfs'}"
    assert f"{tmp_path} has several checkpoints, name one: {named}" in err
    for file in (tmp_path / "join-hdfs" / "commits").iterdir():
        file.unlink()
    code, out, err = run(tmp_path)
    assert (code, "dropDuplicates" in out, "no batch of" in err) == (1, True, True)
