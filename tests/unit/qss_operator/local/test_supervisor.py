"""What a pod said last, before its process ended."""

from pathlib import Path

from qss_operator.local.supervisor import last_line


def test_the_last_line_of_a_process_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(log) == ""
    log.write_text("one\ntwo\n\n")
    assert last_line(log) == "two"
    assert last_line(log, begin=log.stat().st_size) == ""


def test_why_a_process_ends_goes_before_what_it_says_while_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("CRITICAL a token is missing\n")
    begin = log.stat().st_size
    with log.open("a") as file:
        file.write("INFO partition 0 is closed\n")
    assert last_line(log, begin) == "INFO partition 0 is closed"
    with log.open("a") as file:
        file.write("CRITICAL the volume is gone\nERROR the database did not close\n")
    assert last_line(log, begin) == "CRITICAL the volume is gone"
