"""The position of a batch: the offsets of Spark's offset log, as the last offsets read."""

import hashlib
from typing import Any

import pytest

from qss_core.errors import MalformedRequestError
from qss_core.positions import Position
from qss_spark.sink.positions import read_offsets

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1767225600000,"conf":{}}'


def position_of(*lines: str) -> dict[str, Any]:
    """The position of a batch with these lines of its sources."""
    raw = "\n".join(["v1", METADATA, *lines]).encode()
    return read_offsets(raw, "job").position


@pytest.mark.parametrize(
    ("line", "offsets"),
    [
        ('{"logOffset":2}', {"0": 2}),
        ('{"offset":15,"timestamp":3000}', {"0": 15}),
        ("14", {"0": 14}),
        ("0", {"0": 0}),
        ("-", {}),
        ("-1", {}),
        ('{"logOffset":-1}', {}),
        ('{"snapshot":"a"}', {}),
        ('"text"', {}),
        ("true", {}),
        ("1.5", {}),
        ("[1]", {}),
        ("{}", {}),
        ("not JSON", {}),
    ],
)
def test_a_source_without_topics_is_a_topic_of_the_writer(line: str, offsets: Any) -> None:
    assert position_of(line) == {"job.source-0": offsets}


def test_kafkas_end_offsets_are_exclusive_and_a_position_is_what_was_read() -> None:
    assert position_of('{"words":{"0":23,"1":1,"2":0},"names":{"7":345}}') == {
        "words": {"0": 22, "1": 0},
        "names": {"7": 344},
    }


@pytest.mark.parametrize(
    "line",
    [
        '{"words":{"0":"23"}}',
        '{"words":{"zero":23}}',
        '{"words":{"0":true}}',
        '{"words":{"0":1.5}}',
        '{"words":{"0":23},"version":3}',
    ],
)
def test_what_only_looks_like_kafka_is_not_taken_for_it(line: str) -> None:
    assert position_of(line) == {"job.source-0": {}}


def test_a_topic_of_which_nothing_was_read_is_declared() -> None:
    assert position_of('{"words":{}}') == {"words": {}}
    assert position_of('{"words":{"0":0}}') == {"words": {}}


def test_sources_are_numbered_in_plan_order() -> None:
    assert position_of('{"logOffset":2}', "-", "7") == {
        "job.source-0": {"0": 2},
        "job.source-1": {},
        "job.source-2": {"0": 7},
    }


def test_two_sources_of_one_topic_are_one_topic() -> None:
    assert position_of('{"words":{"0":3}}', '{"words":{"1":5}}') == {"words": {"0": 2, "1": 4}}


def test_a_topic_that_two_sources_read_is_as_far_as_the_slower_one() -> None:
    assert position_of('{"words":{"0":3}}', '{"words":{"0":9}}') == {"words": {"0": 2}}
    assert position_of('{"words":{"0":9}}', '{"words":{"0":0}}') == {"words": {}}


def test_the_fingerprint_is_of_the_raw_bytes() -> None:
    raw = f'v1\n{METADATA}\n{{"logOffset":2}}'.encode()
    assert read_offsets(raw, "job").fingerprint == hashlib.sha256(raw).hexdigest()
    assert read_offsets(raw + b"\n", "job").fingerprint != hashlib.sha256(raw).hexdigest()


def test_a_batch_without_sources_has_an_empty_position() -> None:
    assert position_of() == {}


@pytest.mark.parametrize(
    ("raw", "version"),
    [(b"", "nothing"), (b"v1", "v1"), (b"v2\n{}\n3", "v2"), (b"garbage", "garbage")],
)
def test_another_version_of_the_log_is_refused(raw: bytes, version: str) -> None:
    with pytest.raises(MalformedRequestError, match=f"written as {version}, only v1"):
        read_offsets(raw, "job")


@pytest.mark.parametrize(
    "line", ['{"words":{"00":3}}', '{"words":{"99999999999":3}}', '{"words":{"²":3}}']
)
def test_what_is_read_is_always_a_position(line: str) -> None:
    Position.from_json(position_of(line))


def test_a_line_separator_inside_a_line_is_no_new_line() -> None:
    assert position_of('{"a\u2028b":{"0":3}}') == {"a\u2028b": {"0": 2}}
