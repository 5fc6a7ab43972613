"""`qss mirror --file` copies several parts of one state, batch by batch, under one writer."""

import io
import math
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from qss_client import ReadOptions, Store
from qss_client.clock import SystemClock
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import Run, Staged, stage
from qss_core.errors import MalformedRequestError, StaleWriterError
from qss_spark.mirroring.copies.state_copies import StateCopies
from qss_spark.mirroring.copies.state_copy import StateCopy
from qss_spark.mirroring.follow_loop import Teller, follow, looking
from qss_spark.mirroring.metrics import MirrorMetrics
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.wanted_copies import WantedCopies, read_wanted
from qss_spark.state.checkpoint import Checkpoint
from qss_testing.clients.terminal import Terminal
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.committed_query import Query, shown_metrics

PARTS = ("last", "delays", "ports")
WRITER = "state"


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[dict[str, PodCluster]]:
    """A store for each variable of the processor, by the name of the variable."""
    with ExitStack() as stack:
        made = (
            (part, PodCluster(tmp_path / f"pods-{part}", store=part, key_serde="json"))
            for part in PARTS
        )
        yield {part: stack.enter_context(cluster) for part, cluster in made}


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path, "processor-rocksdb")


class Copying:
    """Copies of all variables, as one process has them."""

    def __init__(self, query: Query, clusters: dict[str, PodCluster]) -> None:
        self._http = SyncHttp()
        self.checkpoint = Checkpoint(query.path)
        self.copies = {
            part: StateCopy(
                StateFollower(query.path, None, part), self._http, one.url, one.store, WRITER
            )
            for part, one in clusters.items()
        }
        self.group = StateCopies(self.checkpoint, self.copies)

    def step(self) -> dict[str, int]:
        """The batch that each store got."""
        return {store: written.batch for store, written in self.group.step()}

    def close(self) -> None:
        self.group.close()
        self._http.close()


def test_every_store_gets_a_batch_before_one_gets_the_next(
    query: Query, clusters: dict[str, PodCluster]
) -> None:
    first, second, third, *_ = query.batches
    query.commit(first)
    with closing(Copying(query, clusters)) as copying:
        assert copying.step() == dict.fromkeys(PARTS, first)
        assert copying.step() == {}
        query.commit(second)
        query.commit(third)
        # The process ends between two stores.
        store, written = next(copying.group.step())
        assert (store, written.batch) == ("last", second)
    with closing(Copying(query, clusters)) as copying:
        assert copying.group.last == first
        assert copying.step() == {"delays": second, "ports": second}
        assert copying.step() == dict.fromkeys(PARTS, third)
    bound = {f"@batch.{WRITER}": {1: third}}
    for part, cluster in clusters.items():
        with Store(cluster.url, part) as client:
            assert list(client.range(options=ReadOptions(position_bound=bound, timeout_s=2)))


def test_a_store_that_comes_later_is_brought_level_before_the_others_go_on(
    query: Query, clusters: dict[str, PodCluster]
) -> None:
    first, second, *_ = query.batches
    query.commit(first)
    few = {part: clusters[part] for part in ("last", "delays")}
    with closing(Copying(query, few)) as copying:
        copying.step()
    query.commit(second)
    with closing(Copying(query, clusters)) as copying:
        assert copying.group.last is None
        assert copying.step() == {"ports": second}
        assert copying.step() == {"last": second, "delays": second}


def test_the_command_takes_a_file_of_stores_and_tells_each(
    query: Query,
    clusters: dict[str, PodCluster],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One URL is enough: the stores share pods in no other place than here."""
    query.commit_all()
    file = tmp_path / "mirror.yaml"
    file.write_text(
        f"writer: {WRITER}\nstores:\n- {{store: last, part: last, value: ['twice=d*2']}}\n"
    )
    terminal = Terminal(clusters["last"].url, capsys)
    asked = ("mirror", str(query.path), "--file", str(file))
    done = terminal.run(*asked, "--once", "--metrics-port", "0")
    assert done.code == 0
    told, wrote = done.out.splitlines()
    assert told.startswith("metrics: http://127.0.0.1:")
    assert wrote.startswith(f"last: batch {query.batches[-1]}: the whole state, 4 rows, ")
    (status,) = terminal.json(*asked, "--status")
    assert (status["store"], status["batchesBehind"]) == ("last", 0)
    assert terminal.run(*asked, "--store", "last").code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no|expected"),
        ("writer: 2026-99-99", "month must be in"),
        ("writer: w", "stores"),
        ("{writer: w, stores: []}", "1 to 64 stores"),
        ("{writer: w, stores: [{store: a}, {store: a}]}", "each of them once"),
        ("{writer: w, stores: [{store: a, keep_deleted: true}]}", "keep_deleted"),
        ("{writer: 'a b', stores: [{store: a}]}", "writer's name"),
        ("{writer: w, stores: [{store: a, operator: x}]}", "operator"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(text)
    with pytest.raises(MalformedRequestError, match=said):
        read_wanted(file)
    with pytest.raises(MalformedRequestError, match="cannot be read"):
        read_wanted(tmp_path / "none.yaml")


def test_a_file_has_what_the_options_of_one_store_have(tmp_path: Path) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text("{writer: w, stores: [{store: a, operator: 1, part: p, keepDeleted: true}]}")
    wanted = read_wanted(file)
    assert isinstance(wanted, WantedCopies)
    (one,) = wanted.stores
    assert (one.store, one.operator, one.part, one.keep_deleted) == ("a", 1, "p", True)


def test_metrics_count_batches_rows_whole_states_and_the_lag(
    query: Query, clusters: dict[str, PodCluster]
) -> None:
    first, second, third, *_ = query.batches
    query.commit(first)
    metrics = MirrorMetrics()
    port = metrics.serve(0)
    behind: list[float] = []

    class Scraping(Teller):
        def wrote(self, text: str) -> None:
            super().wrote(text)
            behind.append(shown_metrics(port)["qss_mirror_batches_behind"])

    with closing(Copying(query, {part: clusters[part] for part in ("last", "ports")})) as copying:
        metrics.watch(looking(query.path, lambda: copying.group.last))
        copying.step()
        for batch in (second, third):
            query.commit(batch)
        told = Scraping(io.StringIO())
        follow(copying.group, copying.checkpoint, told, metrics, once=True)
        assert behind == [2, 1, 1, 0]
        lines = shown_metrics(port)
        assert lines["qss_mirror_read_bytes"] > sum(
            one.stat().st_size for one in (query.path / "state" / "0" / "0").glob("[23].changelog")
        )
        query.commit(query.batches[3])
        of = 'qss_mirror_{}{{store="last"}}'.format
        assert lines[of("batch")] == third
        assert lines[of("batches_total")] == 2
        assert lines[of("resyncs_total")] == 0
        assert lines[of("rows_total")] > 4
        assert shown_metrics(port)["qss_mirror_batches_behind"] == 1
        assert shown_metrics(port)["qss_mirror_behind_seconds"] >= 0
    with pytest.raises(MalformedRequestError, match=f"--metrics-port {port}: Address already"):
        MirrorMetrics().serve(port)


def test_a_checkpoint_that_cannot_be_read_is_infinitely_far(tmp_path: Path) -> None:
    assert looking(tmp_path / "none", lambda: None)() == (math.inf, math.inf)
    for log in ("commits", "offsets"):
        (tmp_path / log).mkdir()
    assert looking(tmp_path, lambda: None)() == (0, 0)


def test_a_copy_that_is_behind_may_be_ended_behind_each_batch(
    query: Query, clusters: dict[str, PodCluster]
) -> None:
    first, second, *_ = query.batches
    query.commit(first)
    with closing(Copying(query, {"last": clusters["last"]})) as copying:
        copying.step()
        query.commit_all()
        follow(
            copying.group,
            copying.checkpoint,
            Teller(io.StringIO()),
            MirrorMetrics(),
            once=False,
            wait=lambda _: True,
        )
        assert copying.group.last == second


def test_once_ends_with_the_newest_batch_of_its_beginning(
    query: Query, clusters: dict[str, PodCluster]
) -> None:
    """A query that is as fast as its copy would keep it for ever."""
    first, second, third, *_ = query.batches

    class Committing(Teller):
        def wrote(self, text: str) -> None:
            super().wrote(text)
            query.commit_all()

    query.commit(first)
    with closing(Copying(query, {"last": clusters["last"]})) as copying:
        copying.step()
        query.commit(second)
        told = Committing(io.StringIO())
        follow(copying.group, copying.checkpoint, told, MirrorMetrics(), once=True)
        assert copying.group.last == second < third


def test_a_copy_that_another_one_has_ended_notices_it_without_a_batch(
    query: Query, clusters: dict[str, PodCluster]
) -> None:
    """Both would stay until the query commits, and nobody knows which one copies."""
    clock, few = HandClock(), {"last": clusters["last"]}
    query.commit(query.batches[0])

    def wait(seconds: float) -> bool:
        clock.now_s += seconds or 1.0
        return clock.now_s > 110.0

    with closing(Copying(query, few)) as first:
        first.step()

        def follow_first() -> None:
            told, metrics = Teller(io.StringIO()), MirrorMetrics()
            follow(first.group, first.checkpoint, told, metrics, once=False, wait=wait, clock=clock)

        follow_first()
        clock.now_s = 100.0
        with closing(Copying(query, few)) as second:
            with pytest.raises(StaleWriterError):
                follow_first()
            assert clock.now_s < 106.0
            assert second.step() == {}


def test_the_runs_of_all_stores_are_kept_open_while_one_gets_a_large_state(
    query: Query, clusters: dict[str, PodCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store closes a run that is silent for an hour, and its copy would end."""
    clock, kept = HandClock(), list[str]()

    def renewed(_: SyncHttp, run: Run, *__: object) -> None:
        kept.append(run.store)

    def staged(*given: Any) -> list[Staged]:
        clock.now_s += 61.0
        return stage(*given)

    monkeypatch.setattr("qss_spark.mirroring.copies.copy_writer.renew", renewed)
    monkeypatch.setattr("qss_spark.mirroring.copies.copy_writer.stage", staged)
    monkeypatch.setattr("qss_spark.mirroring.copies.copy_writer.CARRIED_ROWS_BYTES_MAX", -1)
    query.commit(query.batches[0])
    with closing(Copying(query, {part: clusters[part] for part in ("last", "delays")})) as copying:
        steps = StateCopies(copying.checkpoint, copying.copies, clock).step()
        assert next(steps)[0] == "last"
        assert kept == ["last"]
        clock.now_s += 61.0
        assert next(steps)[0] == "delays"
        assert kept == ["last", "last", "last", "delays"]


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_changes_and_a_bar_for_a_large_state() -> None:
    screen, pipe = Screen(), io.StringIO()
    for stream in (screen, pipe):
        teller = Teller(stream)
        teller.staged("delays", 50, 100)
        teller.wrote("delays: batch 1")
        teller.wrote("delays: batch 2")
        teller.end()
    clear = "\r\x1b[K"
    bar = f"delays [{'#' * 15}{'.' * 15}] 50 of 100 rows"
    assert screen.getvalue() == f"{clear}{bar}{clear}delays: batch 1{clear}delays: batch 2\n"
    assert pipe.getvalue() == "delays: batch 1\ndelays: batch 2\n"


class HandClock(SystemClock):
    """A clock that a test sets."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


def test_work_that_takes_long_is_told_before_two_seconds_are_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen, pipe, clock = Screen(), io.StringIO(), HandClock()
    tellers = [Teller(stream, clock=clock) for stream in (screen, pipe)]

    def after(seconds: float) -> tuple[str, str]:
        clock.now_s += seconds
        for one in tellers:
            one.tick()
        shown = screen.getvalue().removeprefix("\r\x1b[K")
        screen.truncate(screen.seek(0))
        return shown, capsys.readouterr().err

    assert after(100) == ("", "")
    for one in tellers:
        one.begins("delays: reads the whole state of batch 1")
    assert after(1.0) == ("", "")
    told = "delays: reads the whole state of batch 1, 2 s"
    assert after(0.9) == (told, f"{told}\n")
    assert after(1.0) == ("", "")
    for one in tellers:
        one.begins("delays: writes 5 rows of batch 1")
    told = "delays: writes 5 rows of batch 1, 1 s"
    assert after(0.6) == (told, f"{told}\n")
    for one in tellers:
        one.rests()
    assert after(100) == ("", "")
    assert pipe.getvalue() == ""
