"""The demo from its first line to its verdict, with a small job in place of the Spark jobs."""

import io
import re
import subprocess
import sys
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from qss_client.processes import is_alive
from qss_spark.demo.processes import Cluster, ProgramError, jobs_directory
from qss_spark.demo.run import Demo
from qss_spark.demo.scenarios import AIRCRAFT_STATS
from qss_spark.flights import FLIGHTS
from qss_testing.clients.qss_command import Qss, manifest
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.long

EXPECTED = {f"N{number}": {"flights": number} for number in range(300)}
JOB = """
import sys
sys.path.insert(0, {tests!r})
from qss_testing.writers.writer import Record, Writer
url, store = sys.argv[sys.argv.index("--url") + 1], sys.argv[sys.argv.index("--store") + 1]
with Writer(url, store) as writer:
    for batch, rows in enumerate({batches!r}):
        writer.write(Record(*row) for row in rows)
        print('{{"batch": %d, "rows": %d, "seconds": 1.0}}' % (batch, {flights}[batch]), flush=True)
"""
_BATCHES = 3
_THIRD = ceil(FLIGHTS / _BATCHES)


class Stage:
    """A demo over one state directory; each run writes its job anew."""

    def __init__(self, directory: Path, pods: int = 1) -> None:
        self.jobs = directory / "jobs"
        self.state = directory / "state"
        self.jobs.mkdir()
        resource = yaml.safe_load((jobs_directory() / "aircraft_stats.yaml").read_text())
        resource["spec"] |= {"replicas": pods, "partitions": 3}
        (self.jobs / "aircraft_stats.yaml").write_text(yaml.dump(resource))
        self.seen_enough = 0

    def run(self, rows: dict[str, object], *, makes_faults: bool = False) -> tuple[int, str]:
        """The exit code and the output of a run."""
        tests = str(Path(__file__).parents[2])
        batches = [list(rows.items())[batch::_BATCHES] for batch in range(_BATCHES)]
        job = JOB.format(tests=tests, batches=batches, flights=[_THIRD, _THIRD, 0])
        (self.jobs / "aircraft_stats.py").write_text(job)
        out = io.StringIO()
        part = replace(AIRCRAFT_STATS.parts[0], expected=lambda: EXPECTED)
        scenario = replace(AIRCRAFT_STATS, parts=(part,), write_input=Path.mkdir)
        console = Console(file=out, width=200)
        demo = Demo(
            console,
            self.state,
            self.jobs,
            [scenario],
            keeps_serving=True,
            makes_faults=makes_faults,
        )
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
    assert ", batch 2, 300 keys; " in said, "counted as the verdict counts"
    assert re.search(r"aircraft-stats: http://127\.0\.0\.1:\d+/console/", said)
    assert "qss get aircraft-stats N14228 --url http://127.0.0.1:" in said
    assert stage.seen_enough == 1


def test_a_pod_is_killed_and_one_added_while_a_job_writes(tmp_path: Path) -> None:
    code, said = Stage(tmp_path, pods=2).run(dict(EXPECTED), makes_faults=True)
    assert "killed aircraft-stats-0 (process " in said
    assert "aircraft-stats: spec.replicas 2 -> 3" in said
    assert "failed" not in said, "the other pod answers"
    assert "aircraft-stats: 300 keys equal" in said
    assert code == 0


def test_pods_do_not_outlive_a_demo_that_is_killed(tmp_path: Path) -> None:
    qss = Qss(tmp_path)
    file = str(qss.write(manifest()))
    # The kernel may signal the end of the process once for each of its threads.
    program = (
        "import threading; from qss_spark.demo.processes import Cluster\n"
        "idle = threading.Event().wait\n"
        "[threading.Thread(target=idle, daemon=True).start() for _ in range(20)]\n"
        f"cluster = Cluster('--state-dir', {str(qss.state.path)!r}, {file!r})\n"
        "cluster.wait_until_ready()\n"
        "print('ready', flush=True)\n"
        "idle()\n"
    )
    demo = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == "ready\n"
        (*_, pod) = qss.living_pods()
        demo.kill()
    wait_until(lambda: not is_alive(pod) and not qss.living_pods())
    assert "nothing was running" in qss.down().out


def test_a_cluster_that_cannot_start_says_why(tmp_path: Path) -> None:
    qss = Qss(tmp_path)
    cluster = Cluster("--state-dir", str(qss.state.path), str(qss.write("kind: [")))
    with pytest.raises(ProgramError, match=r"stores\.yaml"):
        cluster.wait_until_ready()
    cluster.stop()


def test_a_cluster_is_stopped_whether_it_has_begun_or_is_ready(tmp_path: Path) -> None:
    qss = Qss(tmp_path)
    arguments = ("--state-dir", str(qss.state.path), str(qss.write(manifest())))
    Cluster(*arguments).stop()
    assert not qss.living_pods()
    cluster = Cluster(*arguments)
    cluster.wait_until_ready()
    assert qss.living_pods()
    cluster.stop()
    assert not qss.living_pods()
    assert "nothing was running" in qss.down().out
