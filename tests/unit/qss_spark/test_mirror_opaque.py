"""Buffers that only Spark can read are named, and left out of the values of a store."""

import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError
from qss_spark.mirroring.listing import documents_of
from qss_spark.mirroring.rows.computed_values import ComputedValues
from qss_spark.mirroring.rows.opaque_buffers import note_of, opaque_names, without
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.stores import fitting_stores, yaml_of
from qss_spark.state.inventory import Inventory, Place
from qss_spark.state.types import Field

FILES = Path(__file__).parents[2] / "contract" / "spark_state" / "4.3.0"
BUFFER = Field("buf", "binary")
ROWS = pa.table({"key": [{"k": 1}, {"k": 2}], "value": [{"buf": b"x", "n": 1, "buf_1": b""}] * 2})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The state of `collect_list`, a count and `percentile_approx`."""
    directory = tmp_path / "collected"
    with zipfile.ZipFile(FILES / "collected-hdfs.zip") as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture
def place(checkpoint: Path) -> Place:
    return StateFollower(checkpoint, None, None).place


def changed(place: Place, value: tuple[Field, ...], operator: str | None = None) -> Place:
    """The place with other columns of its values, and of another operator."""
    return replace(
        place,
        schema=replace(place.schema, value=value),
        operator=replace(place.operator, name=operator or place.operator.name),
    )


def test_the_values_of_a_state_have_no_buffers_that_only_spark_reads(checkpoint: Path) -> None:
    follower = StateFollower(checkpoint, None, None)
    assert follower.opaque == ("buf", "buf_1")
    first, last = 0, follower.checkpoint.newest()
    for changes in (follower.whole(last), follower.changes(first)):
        assert [one.name for one in changes.changed.schema.field("value").type] == ["count"]


def test_a_list_and_a_store_name_them_and_what_writes_results(checkpoint: Path) -> None:
    found = Inventory(checkpoint)
    (document,) = documents_of(found)
    assert (document["value"], document["opaque"]) == ("count bigint", "buf, buf_1")
    text = yaml_of(fitting_stores(found, "q", is_local=True))
    assert text.startswith("# buf, buf_1 of the values are opaque and left out. Only Spark can ")
    assert "StoreSink" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("value", "operator", "names"),
    [
        ((Field("buf", "string"), Field("buffer", "binary")), None, ()),
        ((Field("count", "long"), BUFFER), "sessionWindowStateStoreSaveExec", ("buf",)),
        ((BUFFER,), "transformWithStateExec", ()),  # A variable of the user, who knows its bytes.
    ],
)
def test_only_the_buffers_of_aggregates_are_opaque(
    place: Place, value: tuple[Field, ...], operator: str | None, names: tuple[str, ...]
) -> None:
    assert opaque_names(changed(place, value, operator)) == names


def test_a_grouping_column_of_the_name_is_the_querys_own_and_hides_no_buffer(place: Place) -> None:
    schema = replace(place.schema, key=(BUFFER,), value=(BUFFER, Field("count", "long")))
    grouped = replace(place, schema=schema)
    assert opaque_names(grouped) == ("buf",)
    session = changed(grouped, (BUFFER, BUFFER), "sessionWindowStateStoreSaveExec")
    assert opaque_names(session) == ("buf_1",)


def test_values_without_another_column_are_told_and_empty(place: Place) -> None:
    whole = changed(place, (BUFFER, BUFFER))
    note = note_of(whole)
    assert note is not None
    assert note.startswith("all columns of the values are opaque (buf, buf_1): a store has the ke")
    assert note.endswith("write the results with StoreSink")
    assert note_of(changed(place, (Field("count", "long"),))) is None
    assert without(ROWS, ("buf", "n", "buf_1")).to_pylist() == [
        {"key": {"k": 1}, "value": {}},
        {"key": {"k": 2}, "value": {}},
    ]
    assert without(ROWS, ("buf", "buf_1")).column("value").to_pylist() == [{"n": 1}] * 2
    assert without(ROWS.slice(0, 0), ("buf",)).num_rows == 0


@pytest.mark.parametrize("text", ["x=buf_1", "x=count/`buf_1`"])
def test_an_expression_that_has_one_is_refused_by_its_name(text: str) -> None:
    said = "the value x has the column buf_1, which is opaque.* write the results with StoreSink"
    with pytest.raises(MalformedRequestError, match=said):
        ComputedValues([text], ("buf", "buf_1"))
    assert ComputedValues([text.replace("buf_1", "n")], ("buf",)).digest
