"""Records the volume of a pod of the version before, with the helpers of its own tests.

    git archive COMMIT | tar --extract --directory TREE
    python tests/contract/before/record_volume.py TREE tests/contract/before/volume.tar.xz

The import paths are those of c5a02872. A later version before this one needs its own.
"""

import asyncio
import importlib
import sys
import tarfile
import tempfile
from pathlib import Path


async def fill(directory: Path) -> None:
    """Commits three batches, and leaves the chunks of a fourth one staged."""
    stores = importlib.import_module("qss_testing.stores")
    clusters = importlib.import_module("qss_testing.write_cluster")
    made = clusters.write_cluster(
        directory, pods=1, partitions=2, open_engine=stores.open_rocksdb()
    )
    async with made as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch("run-1")
        for batch in range(4):
            first = batch * 10
            values = {b"%d" % key: b"%d" % batch for key in range(first, first + 20)}
            rows = dict.fromkeys((0, 1), values)
            chunks = await writer.stage(epoch, batch, f"{epoch}.t.{batch}", rows)
            if batch < 3:
                (await writer.commit(epoch, batch, chunks)).json()


def main(tree: str, target: str) -> None:
    """Writes the volume of pod 0 into an archive."""
    sys.path[:0] = [f"{tree}/{part}" for part in ("store-pod", "operator", "tests")]
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(fill(Path(directory)))
        with tarfile.open(target, "w:xz") as archive:
            archive.add(Path(directory) / "0", "0")


if __name__ == "__main__":
    main(*sys.argv[1:])
