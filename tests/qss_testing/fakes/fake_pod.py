"""A pod program with the control API, which stores only its assignment.

`--fail-while FILE` makes it end with exit code 3 as long as that file exists.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from aiohttp import web

from qss_core.errors import StaleEpochError, StoreError, WrongStoreError
from qss_core.model import Offset, Ordinal, PodName, Sequence, StoreAssignment, StoreName
from qss_core.wire.messages import decode, encode, problem_of
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport


class FakePod:
    """The state of one pod: its assignment, stored in its data directory."""

    def __init__(self, store: StoreName, ordinal: Ordinal, data: Path, incarnation: str) -> None:
        self._store = store
        self._ordinal = ordinal
        self._file = data / "assignment.json"
        self._incarnation = incarnation
        self._version = 1
        self._assignment = (
            decode(self._file.read_bytes(), StoreAssignment) if self._file.exists() else None
        )

    def assign(self, assignment: StoreAssignment) -> None:
        held = self._assignment
        if held is not None:
            if held.definition.store_id != assignment.definition.store_id:
                raise WrongStoreError(f"the volume is of store {held.definition.store_id}")
            pairs = zip(held.partitions, assignment.partitions, strict=True)
            if any(new.epoch < old.epoch for old, new in pairs):
                raise StaleEpochError("a configuration is lower than the one held")
        temporary = self._file.with_suffix(".tmp")
        temporary.write_bytes(encode(assignment))
        temporary.replace(self._file)
        self._assignment = assignment
        self._version += 1

    def report(self) -> ReplicasReport:
        held = self._assignment
        replicas = [
            ReplicaReport(
                configuration=entry,
                role=role,
                state="serving",
                applied_offset=Offset(0),
                end_offset=Offset(0),
                sequence=Sequence(0),
            )
            for entry in (held.partitions if held else ())
            if (role := entry.role_of(self._ordinal)) is not None
        ]
        return ReplicasReport(
            store=self._store,
            store_id=held.definition.store_id if held else None,
            pod=PodName(f"{self._store}-{self._ordinal}"),
            ordinal=self._ordinal,
            incarnation=self._incarnation,
            version=self._version,
            ready=held is not None,
            replicas=tuple(replicas),
        )


POD = web.AppKey("pod", FakePod)


async def put_assignment(request: web.Request) -> web.Response:
    pod = request.app[POD]
    try:
        pod.assign(decode(await request.read(), StoreAssignment))
    except StoreError as error:
        return web.Response(
            body=encode(problem_of(error)),
            status=error.http_status,
            content_type="application/problem+json",
        )
    return web.Response(body=encode(pod.report()), content_type="application/json")


async def get_replicas(request: web.Request) -> web.Response:
    return web.Response(body=encode(request.app[POD].report()), content_type="application/json")


async def serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    app = web.Application()
    incarnation = str(loop.time())
    app[POD] = FakePod(options.store, options.ordinal, options.data_dir, incarnation)
    app.router.add_put("/control/assignment", put_assignment)
    app.router.add_get("/control/replicas", get_replicas)
    runner = web.AppRunner(app)
    await runner.setup()
    for port in (options.query_port, options.internal_port, options.ops_port):
        await web.TCPSite(runner, "127.0.0.1", port).start()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--ordinal", type=int, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--query-port", type=int, required=True)
    parser.add_argument("--internal-port", type=int, required=True)
    parser.add_argument("--ops-port", type=int, required=True)
    parser.add_argument("--fail-while", type=Path)
    options = parser.parse_args()
    if options.fail_while is not None and options.fail_while.exists():
        sys.stderr.write("the disk is on fire\n")
        raise SystemExit(3)
    options.data_dir.mkdir(parents=True, exist_ok=True)
    asyncio.run(serve(options))


if __name__ == "__main__":
    main()
