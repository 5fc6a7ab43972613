"""The figures of a siege with their bounds."""

from qss_bench.report import Figure
from qss_siege.siege import Outcome

_MIB = 1024 * 1024
P99_TIMES_IDLE_MAX = 10.0


def figures_of(outcome: Outcome, *, timed: bool = True) -> list[Figure]:
    """All figures; without `timed`, only figures that do not depend on the machine's speed."""
    return [*_memory(outcome), *_service(outcome), *(_latencies(outcome) if timed else [])]


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _memory(outcome: Outcome) -> list[Figure]:
    group = (
        f"group's peak {outcome.group_peak_bytes / _MIB:.0f} MiB with page cache, of it "
        f"{outcome.socket_peak_bytes / _MIB:.0f} MiB sockets"
        if not outcome.group
        else f"no memory control group: {outcome.group}"
    )
    return [
        Figure(
            name="peak RSS",
            value=outcome.rss_bytes / _MIB,
            unit="MiB",
            at_most=outcome.limit_bytes / _MIB,
            detail=f"{outcome.rss_before_bytes / _MIB:.0f} MiB before; {group}",
        ),
        _none("ended for want of memory", [""] * outcome.kills),
        Figure(
            name="open files",
            value=outcome.files_max,
            unit="",
            at_most=outcome.files_limit,
            detail="the most at a time; the bound is the process's own",
        ),
    ]


def _service(outcome: Outcome) -> list[Figure]:
    assert outcome.probes is not None
    readers = [
        f"{what} ({count})"
        for seen in (outcome.idle, outcome.under)
        for what, count in seen.failures.items()
        for _ in range(count)
    ]
    probes = outcome.probes
    faults = [
        kind
        for kind, ends in outcome.hostile.items()
        for end, count in ends.items()
        for _ in range(count)
        if "500" in end.split("/")
    ]
    return [
        _none("answers 500", faults, "of what hostile callers were answered"),
        _none(
            "good readers' failures",
            readers,
            f"of {len(outcome.under.latencies_s)} gets, "
            f"{len(outcome.under.newcomers_s)} of new connections",
        ),
        _none(
            "good writer's failures",
            outcome.writer_failures,
            f"of {outcome.batches} batches, the slowest {outcome.slowest_batch_s:.2f} s",
        ),
        _none(
            "probes lost", probes.lost, f"of {probes.asked}, the slowest {probes.slowest_s:.2f} s"
        ),
        _none(
            "partitions stopped",
            [""] * outcome.partitions_stopped,
            f"by {outcome.reports} reports",
        ),
    ]


def _latencies(outcome: Outcome) -> list[Figure]:
    idle, under = outcome.idle.latencies_s, outcome.under.latencies_s
    p99 = percentile(idle, 0.99)
    return [
        Figure(
            name="p99 of a good get / idle",
            value=percentile(under, 0.99) / p99 if p99 else float("inf"),
            unit="x",
            at_most=P99_TIMES_IDLE_MAX,
            detail="p50, p99 and most in ms: idle "
            + ", ".join(f"{percentile(idle, share) * 1000:.2f}" for share in (0.5, 0.99, 1.0))
            + "; under siege "
            + ", ".join(f"{percentile(under, share) * 1000:.2f}" for share in (0.5, 0.99, 1.0)),
        )
    ]


def _none(name: str, found: list[str], detail: str = "") -> Figure:
    named = ", ".join(dict.fromkeys(one[:120] for one in found if one))
    return Figure(
        name=name,
        value=len(found),
        unit="",
        at_most=0,
        detail=": ".join(one for one in (detail, named) if one),
    )
