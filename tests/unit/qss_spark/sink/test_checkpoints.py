"""A checkpoint that executors do not see is refused before the first batch."""

from pathlib import Path

from qss_spark.sink.checkpoints import make_look, not_shared


def test_an_executor_tells_whether_it_sees_the_drivers_directory(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    [(host, does_see)] = make_look(str(mark))([0])
    assert host
    assert not does_see
    mark.touch()
    [(_, does_see)] = make_look(str(mark))([0])
    assert does_see


def test_the_refusal_says_what_to_do() -> None:
    said = not_shared(Path("/tmp/x"), [f"pod-{number}" for number in range(9)])
    assert "pod-0" in said
    assert "pod-8" not in said
    assert "ReadWriteMany" in said
