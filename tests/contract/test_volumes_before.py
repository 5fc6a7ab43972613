"""A pod of this version goes on with the volume of a pod of the version before.

`before/record_volume.py` made the volume: three batches, and the staged chunks of a fourth.
"""

import tarfile
from pathlib import Path

import pytest

from qss_core.errors import ChunkMissingError
from qss_core.model import Epoch, Sequence, WriterEpoch
from qss_core.positions import PositionJson
from qss_core.wire.losses import BatchesHeld
from qss_core.wire.messages import ChunkReference, PartitionCommit
from qss_store.transactions.participant import Participant
from qss_store.transactions.state_rows import PARTICIPANT
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import write_cluster

_VOLUME = Path(__file__).parent / "before" / "volume.tar.xz"
_POSITION: PositionJson = {"input": {"0": 1}}
_COMMIT = PartitionCommit(
    sequence=Sequence(8),
    writer="job",
    generation=1,
    batch=7,
    writer_epoch=WriterEpoch(1),
    chunks=(ChunkReference(id="1.t.7", records=1, checksum="00"),),
    position=_POSITION,
    wall_time_ms=5,
    replace=False,
)


async def test_a_pod_goes_on_with_the_volume_of_the_version_before(tmp_path: Path) -> None:
    with tarfile.open(_VOLUME) as archive:
        archive.extractall(tmp_path)
    expected = {b"%d" % key: b"%d" % min(2, key // 10) for key in range(40)}
    made = write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb())
    async with made as cluster:
        report = cluster.pods[0].pod.report()
        assert report.lost == ()
        assert [(one.state, one.sequence) for one in report.replicas] == [("serving", 3)] * 2
        assert cluster.rows(0) == cluster.rows(1) == expected
        assert {partition for partition, _ in cluster.staged()} == {0, 1}
        writer = cluster.writer()
        epoch = await writer.epoch("run-2")
        chunks = await writer.stage(epoch, 3, f"{epoch}.t.3", {0: {b"a": b"1"}, 1: {b"a": b"1"}})
        (await writer.commit(epoch, 3, chunks)).json()
        assert cluster.rows(0) == cluster.rows(1) == {**expected, b"a": b"1"}
    made = write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb())
    async with made as cluster:  # The log has entries of both versions now.
        assert cluster.rows(0) == {**expected, b"a": b"1"}


@pytest.mark.parametrize(("forgiven", "is_taken"), [(0, False), (7, False), (8, True)])
def test_a_loss_that_was_accepted_in_the_version_before_still_holds(
    forgiven: int, is_taken: bool
) -> None:
    """The chunks of a decided batch were lost, and the batch was not committed yet."""
    kept = b'{"sequence": 7, "forgiven": %d, "acceptedIn": 2}' % forgiven
    participant = Participant.load({PARTICIPANT: kept})
    assert participant.accepted_in == Epoch(2)
    if is_taken:
        assert participant.check_commit(_COMMIT)
    else:
        with pytest.raises(Exception, match="chunk"):
            participant.check_commit(_COMMIT)


def test_a_loss_is_accepted_with_what_a_coordinator_of_the_version_before_tells() -> None:
    """It tells the sequence of its unfinished batch, and not which batch it is."""
    participant = Participant.load({PARTICIPANT: b'{"sequence": 7}'})
    with pytest.raises(ChunkMissingError):
        participant.check_commit(_COMMIT)
    held = BatchesHeld(
        sequence=Sequence(7),
        completed=Sequence(7),
        decided=Sequence(8),
        position=_POSITION,
        last=(),
    )
    participant.apply_loss(Epoch(3), held)
    assert participant.check_commit(_COMMIT)
