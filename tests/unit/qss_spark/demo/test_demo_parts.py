"""Parts of the demo: its job survives kills, and its display needs no terminal."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from rich.console import Console

from qss_client.processes import identify, is_alive
from qss_spark.demo.driver import STARTS_IN_VAIN_MAX, Driver
from qss_spark.demo.expected import expected_delays
from qss_spark.demo.processes import ProgramError, jobs_directory, run_qss
from qss_spark.demo.query_load import Answered, QueryLoad
from qss_spark.demo.run import Display, as_typed
from qss_spark.demo.scenarios import AIRCRAFT_STATS, FLIGHTS_WEATHER, SCENARIOS
from qss_spark.flights import FLIGHTS, read_rows, read_weather
from qss_testing.waiting import wait_until

# The program counts its starts in a file; each start ends as the list says.
SCRIPT = """
import json, os, pathlib, signal, sys
starts = pathlib.Path(sys.argv[2])
number = int(starts.read_text()) if starts.exists() else 0
starts.write_text(str(number + 1))
print("Using Spark's default log4j profile")
print(json.dumps({"batch": number, "rows": 10, "seconds": 0.5}))
print('{"batch": ', end="", flush=True)
print("something went wrong", file=sys.stderr, flush=True)
end = sys.argv[3].split(",")[number]
os.kill(os.getpid(), signal.SIGKILL) if end == "kill" else sys.exit(int(end))
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "jobs.log")
    yield made
    made.stop()


def batches(driver: Driver, script: Path, *arguments: str) -> list[Any]:
    told = driver.run(script, list(arguments))
    return [line["batch"] for line in told if line is not None]


def play(driver: Driver, directory: Path, *ends: str) -> list[int]:
    """The batches of a job whose starts end in this way."""
    script = directory / "job.py"
    script.write_text(SCRIPT)
    return batches(driver, script, str(directory / "starts"), ",".join(ends))


def test_a_job_that_is_killed_is_started_again(tmp_path: Path, driver: Driver) -> None:
    assert play(driver, tmp_path, "kill", "kill", "0") == [0, 1, 2]
    assert driver.starts == 3


def test_jobs_share_a_process_and_know_nothing_of_each_other(
    tmp_path: Path, driver: Driver
) -> None:
    for name in ("one", "two"):
        script = tmp_path / f"{name}.py"
        script.write_text(
            "import os, sys\n"
            "assert __name__ == '__main__' and 'left' not in globals()\n"
            "left = sys.argv[2]\n"
            f'print(\'{{"said": ["{name}", "\' + left + \'", %d]}}\' % os.getpid())\n'
        )
    told = [*driver.run(tmp_path / "one.py", ["a"]), *driver.run(tmp_path / "two.py", ["b"])]
    first, second = (line["said"] for line in told if line is not None)
    assert [first, second] == [["one", "a", ANY], ["two", "b", ANY]]
    assert first[2] == second[2]
    assert driver.starts == 1


def test_a_process_that_is_killed_between_two_jobs_is_started_again(
    tmp_path: Path, driver: Driver
) -> None:
    script = tmp_path / "job.py"
    script.write_text("import os\nprint('{\"batch\": %d}' % os.getpid())\n")
    (first,) = batches(driver, script)
    process = identify(first)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: process is not None and not is_alive(process))
    (second,) = batches(driver, script)
    assert first != second


def test_a_job_that_fails_is_given_up_with_what_it_said(tmp_path: Path, driver: Driver) -> None:
    with pytest.raises(ProgramError, match="the job ended with 3") as raised:
        play(driver, tmp_path, "kill", "3")
    assert "something went wrong" in str(raised.value)
    assert str(tmp_path / "jobs.log") in str(raised.value)
    assert driver.starts == 2


def test_a_job_that_meets_the_remains_of_a_killed_one_is_started_again(
    tmp_path: Path, driver: Driver
) -> None:
    script = tmp_path / "job.py"
    meets = "sys.stderr.write('[CONCURRENT_STREAM_LOG_UPDATE] for batch 30'); sys.exit(1)"
    script.write_text(
        "import pathlib, sys\n"
        "mark = pathlib.Path(sys.argv[2])\n"
        f"if not mark.exists(): mark.touch(); {meets}\n"
    )
    assert batches(driver, script, str(tmp_path / "mark")) == []
    assert driver.starts == 2


def test_a_job_does_not_outlive_a_demo_that_is_killed(tmp_path: Path) -> None:
    script, told = tmp_path / "job.py", tmp_path / "pid"
    script.write_text(
        "import os, pathlib, signal, sys\n"
        "told = pathlib.Path(sys.argv[2])\n"
        "told.with_suffix('.draft').write_text(str(os.getpid()))\n"
        "told.with_suffix('.draft').rename(told)\n"
        "signal.pause()\n"
    )
    program = (
        "from pathlib import Path; from qss_spark.demo.driver import Driver\n"
        f"driver = Driver(Path({str(tmp_path / 'log')!r}))\n"
        f"list(driver.run(Path({str(script)!r}), [{str(told)!r}]))\n"
    )
    demo = subprocess.Popen([sys.executable, "-c", program])
    wait_until(told.exists)
    job = identify(int(told.read_text()))
    assert job is not None
    demo.kill()
    demo.wait()
    wait_until(lambda: not is_alive(job))


def test_a_job_may_be_killed_as_often_as_it_gets_on(tmp_path: Path, driver: Driver) -> None:
    kills = 2 * STARTS_IN_VAIN_MAX
    assert play(driver, tmp_path, *["kill"] * kills, "0") == list(range(kills + 1))


def test_a_job_that_is_always_killed_before_it_begins_is_given_up(
    tmp_path: Path, driver: Driver
) -> None:
    script = tmp_path / "job.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(ProgramError, match="was killed 5 times one after the other"):
        batches(driver, script)
    assert driver.starts == STARTS_IN_VAIN_MAX == 5


def test_a_job_that_only_repeats_its_batch_is_given_up(tmp_path: Path, driver: Driver) -> None:
    """Each time the job ends as if its Java had been killed."""
    script = tmp_path / "job.py"
    script.write_text(
        "import sys\nprint('{\"batch\": 3}', flush=True)\nsys.exit('OSError: Connection refused')\n"
    )
    with pytest.raises(ProgramError, match="without progress"):
        batches(driver, script)
    assert driver.starts == STARTS_IN_VAIN_MAX + 1


def test_a_command_is_shown_as_it_works_in_another_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Path(sys.executable).parent
    monkeypatch.chdir(programs.parent)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert as_typed("qss get words a") == f"{programs.name}/qss get words a"
    assert as_typed("curl -i http://pod") == "curl -i http://pod"
    monkeypatch.setenv("PATH", str(programs))
    assert as_typed("qss get words a") == "qss get words a"


def test_a_job_is_stopped_while_it_runs(tmp_path: Path, driver: Driver) -> None:
    script = tmp_path / "job.py"
    script.write_text('import signal\nprint("{}", flush=True)\nsignal.pause()')
    progress = driver.run(script, [])
    assert next(line for line in progress if line is not None) == {}
    driver.stop()
    assert [line for line in progress if line is not None] == []
    assert driver.starts == 1


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(ProgramError, match="qss scan failed:\nerror: "):
        run_qss("scan", "nothing", "--url", "no-url")


def test_the_jobs_are_beside_the_package() -> None:
    names = {path.name for path in jobs_directory().iterdir()}
    for scenario in SCENARIOS:
        assert {f"{scenario.file}.py", f"{scenario.file}.yaml"} <= names
        assert (scenario.mirror_file in names) is scenario.is_mirrored


# --- Display


def line(rows: int, batch: int) -> dict[str, Any]:
    return {"rows": rows, "batch": batch, "seconds": 0.0}


def test_without_a_terminal_a_plain_line_is_printed_now_and_then() -> None:
    out = io.StringIO()
    asking = QueryLoad("http://127.0.0.1:1", "words", "words", lambda _: "")
    asking.newest = Answered(3, 2, "[a] -> {'n': 1}", 7)
    with Display(Console(file=out, width=40), AIRCRAFT_STATS) as display:
        display.show(None, asking, 1)
        assert out.getvalue() == ""
        display.show(line(1000, 0), asking, 1)
        display.show(line(1000, 1), asking, 1)
        display.show(line(FLIGHTS - 2000, 2), asking, 2)
    first, last = out.getvalue().splitlines()
    answered = "ask    3 answered  [a] -> {'n': 1}  (2 failed)"
    assert first == f"stream 1,000/{FLIGHTS:,} flights, batch 0, 7 keys; {answered}"
    assert last.startswith(f"stream {FLIGHTS:,}/{FLIGHTS:,} flights, batch 2")
    assert last.endswith("(job started 2 times)")


def test_the_total_of_a_scenario_is_the_number_of_rows_of_its_input() -> None:
    """The join reads both sides: counted as flights alone, its bar went beyond its end."""
    rows = {
        "flights": sum(1 for _ in read_rows()) - 1,  # Without the header.
        "rows of flights and weather": sum(
            1 for rows in (read_rows(), read_weather()) for _ in rows
        )
        - 2,
        # Of which Spark's reader of files leaves out all others.
        "late arrivals": sum(
            one["flights"] for one in expected_delays()["delays-airports"].values()
        ),
    }
    assert {(one.name, one.total) for one in SCENARIOS} == {
        (one.name, rows[one.counted]) for one in SCENARIOS
    }
    out = io.StringIO()
    asking = QueryLoad("http://127.0.0.1:1", "words", "words", lambda _: "")
    with Display(Console(file=out, width=40), FLIGHTS_WEATHER) as display:
        display.show(line(FLIGHTS, 0), asking, 1)
        assert display.share < 1.0, "the weather is still to be read"
        display.show(line(FLIGHTS_WEATHER.total - FLIGHTS, 1), asking, 1)
        display.finish(asking, 1)
    last = out.getvalue().splitlines()[-1]
    assert last.startswith("stream 362,891/362,891 rows of flights and weather, batch 1, ")


def test_the_last_plain_line_tells_of_every_flight_even_those_that_spark_did_not_count() -> None:
    out = io.StringIO()
    asking = QueryLoad("http://127.0.0.1:1", "words", "words", lambda _: "")
    with Display(Console(file=out, width=40), AIRCRAFT_STATS) as display:
        display.show(line(1000, 0), asking, 1)
        display.show(line(FLIGHTS - 3512, 1), asking, 1)
        display.finish(asking, 1)
    last = out.getvalue().splitlines()[-1]
    assert last.startswith(f"stream {FLIGHTS:,}/{FLIGHTS:,} flights, batch 1")
    assert len(out.getvalue().splitlines()) == 2


def test_on_a_terminal_two_lines_stay() -> None:
    out = io.StringIO()
    asking = QueryLoad("http://127.0.0.1:1", "words", "words", lambda _: "")
    console = Console(file=out, width=120, force_terminal=True)
    with Display(console, AIRCRAFT_STATS) as display:
        display.show(line(1000, 4), asking, 1)
    assert f"1000/{FLIGHTS}" in out.getvalue()
    assert "waiting for the first answer" in out.getvalue()
