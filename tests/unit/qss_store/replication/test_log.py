"""The log of one partition: offsets, watermark, configurations, truncation."""

import zlib

import pytest

from qss_core.errors import CorruptionError, NotActiveError, StaleEpochError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, PartitionId, WriterEpoch
from qss_store.replication import log as logs
from qss_store.replication.digest import NO_DIGEST, digest_after
from qss_store.replication.entries import Payload, decode_entry, encode_entry
from qss_store.transactions.commands import (
    Abort,
    Barrier,
    LoggedCommand,
    Stage,
    command_of,
    entry_of,
)

A, B, C = Ordinal(0), Ordinal(1), Ordinal(2)


def configuration(
    epoch: int = 1, active: Ordinal = A, in_sync: tuple[Ordinal, ...] = (A,)
) -> PartitionConfiguration:
    return PartitionConfiguration(
        partition=PartitionId(3),
        epoch=Epoch(epoch),
        active=active,
        in_sync=in_sync,
        replicas=(A, B, C),
    )


def filled(log: logs.Log, entries: int) -> logs.Log:
    for _ in range(entries):
        log, _ = logs.append(log)
    return log


def test_an_entry_is_applied_when_every_in_sync_replica_holds_it() -> None:
    log = filled(logs.Log(pod=A, configuration=configuration(in_sync=(A, B))), 3)
    log = logs.acknowledge(log, A, Offset(3))
    assert list(logs.applicable(log)) == []
    log = logs.acknowledge(log, B, Offset(2))
    assert list(logs.applicable(log)) == [0, 1]
    log = logs.acknowledge(log, C, Offset(3))
    assert log.watermark == 2, "a learner's word does not count"


def test_a_sole_replica_raises_the_watermark_alone() -> None:
    log = filled(logs.Log(pod=A, configuration=configuration()), 2)
    log = logs.acknowledge(log, A, Offset(2))
    assert list(logs.applicable(log)) == [0, 1]


def test_the_watermark_never_falls() -> None:
    log = logs.acknowledge(filled(logs.Log(pod=A, configuration=configuration()), 5), A, Offset(5))
    assert logs.acknowledge(log, A, Offset(2)).watermark == 5


def test_entries_are_applied_in_order_and_under_the_watermark() -> None:
    log = logs.acknowledge(filled(logs.Log(pod=A, configuration=configuration()), 2), A, Offset(1))
    with pytest.raises(AssertionError):
        logs.apply(log, Offset(1))
    log = logs.apply(log, Offset(0))
    with pytest.raises(AssertionError):
        logs.apply(log, Offset(1))


def test_only_the_active_takes_writes_and_only_of_its_epoch() -> None:
    log = logs.Log(pod=A, configuration=configuration(epoch=4))
    logs.check_active(log)
    logs.check_active(log, Epoch(4))
    for other in (3, 5):
        with pytest.raises(StaleEpochError):
            logs.check_active(log, Epoch(other))
    standby = logs.Log(pod=B, configuration=configuration(in_sync=(A, B)))
    with pytest.raises(NotActiveError) as refused:
        logs.check_active(standby)
    assert refused.value.details["active"] == A


def test_a_lower_epoch_and_another_content_of_the_same_are_refused() -> None:
    log = logs.Log(pod=A, configuration=configuration(epoch=4))
    assert logs.reconfigure(log, configuration(epoch=4)) is log
    for stale in (configuration(epoch=3), configuration(epoch=4, active=B, in_sync=(B,))):
        with pytest.raises(StaleEpochError):
            logs.reconfigure(log, stale)


def test_a_replica_that_becomes_active_owes_a_barrier_and_counts_anew() -> None:
    log = filled(logs.Log(pod=B, configuration=configuration(in_sync=(A, B))), 2)
    log = logs.acknowledge(log, B, Offset(2))
    log = logs.reconfigure(log, configuration(epoch=2, active=B, in_sync=(A, B)))
    assert logs.owes_barrier(log, last_epoch=Epoch(1))
    assert log.watermark == 0
    assert logs.acknowledge(log, A, Offset(2)).watermark == 2


ENTRIES = [logs.Stored(Offset(number), number * 10, number * 100) for number in range(10)]


@pytest.mark.parametrize(
    ("age_ms", "size_bytes", "open_floor", "start"),
    [
        (1000, 10_000, None, 0),  # Young and small: all is kept.
        (55, 10_000, None, 5),  # Older than 55 ms at 100 ms.
        (1000, 250, None, 8),  # 250 bytes are two entries and a half.
        (1000, 0, Offset(3), 3),  # The first Stage of an open batch is never cut.
        (0, 0, None, 9),  # What is not applied is never cut.
    ],
)
def test_the_log_is_cut_by_age_and_size(
    age_ms: int, size_bytes: int, open_floor: Offset | None, start: int
) -> None:
    log = logs.Log(
        pod=A,
        configuration=configuration(),
        end=Offset(10),
        watermark=Offset(9),
        applied=Offset(9),
    )
    retention = logs.Retention(age_ms, size_bytes)
    assert logs.truncation_point(log, ENTRIES, 1000, open_floor, 100, retention) == start


def test_a_log_is_not_read_further_than_it_is_cut() -> None:
    log = logs.Log(pod=A, configuration=configuration(), watermark=Offset(9), applied=Offset(9))
    entries = iter(ENTRIES)
    logs.truncation_point(log, entries, 1000, None, 100, logs.Retention(85, 10_000))
    assert next(entries).offset == 3


def test_nothing_is_cut_while_an_entry_is_being_applied() -> None:
    log = logs.Log(pod=A, configuration=configuration(), watermark=Offset(10), applied=Offset(9))
    assert logs.truncation_point(log, ENTRIES, 1000, None, 100, logs.Retention(0, 0)) == 0


def test_entries_of_a_clock_that_was_ahead_do_not_stop_retention_by_age() -> None:
    log = logs.Log(pod=A, configuration=configuration(), watermark=Offset(10), applied=Offset(10))
    ahead = [logs.Stored(one.offset, one.wall_time_ms + 10_000, 0) for one in ENTRIES[:4]]
    entries = [*ahead, *ENTRIES[4:]]
    retention = logs.Retention(45, 10_000)
    assert logs.truncation_point(log, entries, 1000, None, 100, retention) == 6
    assert logs.truncation_point(log, ahead, 1000, None, 100, retention) == 0


def test_a_configuration_makes_nothing_durable_that_no_sync_covered() -> None:
    log = filled(logs.Log(pod=A, configuration=configuration()), 3)
    log = logs.acknowledge(log, A, Offset(1))
    log = logs.reconfigure(log, configuration(epoch=2))
    log = logs.acknowledge(log, A, Offset(2))
    assert log.watermark == 2


@pytest.mark.parametrize(
    ("epoch", "active", "last_epoch", "owes"),
    [
        (1, A, 0, False),  # The first epoch of a partition has no history to fix.
        (2, A, 1, True),
        (2, A, 0, True),  # An empty log may have had entries.
        (2, A, 2, False),
        (2, B, 1, False),  # Only an active appends.
    ],
)
def test_a_barrier_is_owed_while_the_log_has_no_entry_of_its_epoch(
    epoch: int, active: Ordinal, last_epoch: int, *, owes: bool
) -> None:
    log = logs.Log(pod=A, configuration=configuration(epoch, active, (A, B)))
    assert logs.owes_barrier(log, Epoch(last_epoch)) is owes


COMMANDS = [
    Barrier(),
    Abort(writer="w", generation=1, batch=2, writer_epoch=WriterEpoch(3)),
    Stage(
        writer="w",
        generation=1,
        batch=2,
        writer_epoch=WriterEpoch(3),
        chunk="3.a.0",
        records=1,
        checksum="aa",
        payload_bytes=9,
    ),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_entry_is_read_as_it_was_written(command: Barrier | Abort | Stage) -> None:
    logged = LoggedCommand(Epoch(5), 1_700_000_000_000, command)
    entry = decode_entry(encode_entry(entry_of(logged, 77)))
    assert command_of(entry) == logged
    assert entry.bytes_before == 77


def test_golden_bytes_of_an_entry() -> None:
    logged, before = LoggedCommand(Epoch(5), 1_700_000_000_000, Barrier()), digest_after(b"x")
    data = encode_entry(entry_of(logged, 77, before, Payload(9, zlib.crc32(b"123456789"))))
    assert data.hex() == (
        "020400000000000000050000018bcfe56800000000000000004d"
        "442a44457137672b3218c1007dc8f76a"
        "00000009cbf439267b7d"
    )


def test_an_entry_of_the_first_version_is_read() -> None:
    entry = decode_entry(bytes.fromhex("010400000000000000050000018bcfe56800000000000000004d7b7d"))
    assert command_of(entry) == LoggedCommand(Epoch(5), 1_700_000_000_000, Barrier())
    assert (entry.bytes_before, entry.digest_before, entry.payload) == (77, NO_DIGEST, None)


@pytest.mark.parametrize("payload", [None, Payload(9, 7)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_entry_is_refused_and_never_misread(
    command: Barrier | Abort | Stage, payload: Payload | None
) -> None:
    data = encode_entry(entry_of(LoggedCommand(Epoch(5), 1, command), 2, NO_DIGEST, payload))
    for end in range(len(data)):
        with pytest.raises(CorruptionError):
            command_of(decode_entry(data[:end]))
    for version in {0, 1, 2, 3, 255} - {data[0]}:
        with pytest.raises(CorruptionError):
            command_of(decode_entry(bytes([version]) + data[1:]))
    with pytest.raises(CorruptionError):
        command_of(decode_entry(data[:1] + b"\x63" + data[2:]))
