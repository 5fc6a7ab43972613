"""The demo from its first line to its verdict, with a small job instead of Spark's."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import yaml
from rich.console import Console

from qss_operator.local.processes import is_alive
from qss_spark.demo.plays import AIRCRAFT_STATS
from qss_spark.demo.processes import jobs_directory
from qss_spark.demo.run import Demo
from qss_testing.qss_command import Qss
from qss_testing.waiting import wait_until

EXPECTED = {f"N{number}": {"flights": number} for number in range(300)}
JOB = """
import sys
sys.path.insert(0, {tests!r})
from qss_testing.writer import write_values
url, store = sys.argv[sys.argv.index("--url") + 1], sys.argv[sys.argv.index("--store") + 1]
write_values(url, store, {rows!r})
print('{{"batch": 0, "rows": 300, "keys": 300, "seconds": 1.0}}')
"""


class Stage:
    """A demo over one state directory, whose job is written anew for each run."""

    def __init__(self, directory: Path) -> None:
        self.jobs = directory / "jobs"
        self.state = directory / "state"
        self.jobs.mkdir()
        resource = yaml.safe_load((jobs_directory() / "aircraft_stats.yaml").read_text())
        resource["spec"] |= {"replicas": 1, "partitions": 3}
        (self.jobs / "aircraft_stats.yaml").write_text(yaml.dump(resource))
        self.seen_enough = 0

    def run(self, rows: dict[str, object]) -> tuple[int, str]:
        """Its exit code and what it printed."""
        tests = str(Path(__file__).parent.parent)
        job = JOB.format(tests=tests, rows=rows)
        (self.jobs / "aircraft_stats.py").write_text(job)
        out = io.StringIO()
        part = replace(AIRCRAFT_STATS.parts[0], expected=lambda: EXPECTED)
        play = replace(AIRCRAFT_STATS, parts=(part,), write_input=Path.mkdir)
        console = Console(file=out, width=200)
        demo = Demo(console, self.state, self.jobs, [play], keeps_serving=True)
        return demo.run(self.wait), out.getvalue()

    def wait(self) -> None:
        self.seen_enough += 1


def test_the_verdict_is_what_the_store_holds(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    wrong = {key: EXPECTED[key] for key in list(EXPECTED)[:-1]}
    code, said = stage.run({**wrong, "N1": {"flights": 2}, "X": {"flights": 0}})
    assert code == 1
    assert "aircraft-stats: 3 differences" in said
    assert "N1: is {'flights': 2}, should be {'flights': 1}" in said
    assert "X: is {'flights': 0}, and should not be there" in said
    assert "N299: is missing, should be {'flights': 299}" in said
    assert stage.seen_enough == 0

    # That run has ended, so this one begins anew: X is gone. A list of jobs that a crash or a full
    # disk has cut is no hindrance.
    (stage.state / "jobs.json").write_text("")
    code, said = stage.run(dict(EXPECTED))
    assert code == 0
    assert "aircraft-stats: 300 keys equal" in said
    assert "qss get aircraft-stats N14228 --url http://127.0.0.1:" in said
    assert stage.seen_enough == 1


def test_pods_do_not_outlive_a_demo_that_is_killed_and_no_other_end_is_taken_for_that(
    tmp_path: Path,
) -> None:
    qss = Qss(tmp_path)
    assert qss.up().code == 0
    (pod, *_) = qss.living_pods()
    program = (
        "import signal; from qss_spark.demo.processes import downed_when_killed\n"
        f"with downed_when_killed('--state-dir', {str(qss.state.path)!r}):\n"
        "    print('guarded', flush=True)\n"
        "    input()\n"
    )

    def start() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)

    with start() as demo:
        assert demo.communicate("\n")[0] == "guarded\n"
    assert is_alive(pod)
    with start() as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == "guarded\n"
        demo.kill()
    wait_until(lambda: not qss.living_pods())
