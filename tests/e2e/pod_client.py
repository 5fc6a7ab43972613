"""Writes and reads a store inside a pod; Python reads this program from standard input.

python - write STORE COUNT ROUND [PEM] writes COUNT keys with ROUND as their value
python - fill STORE BYTES              writes so many bytes of values
python - read STORE [PEM]              prints all rows as one JSON object
python - read-actives STORE            the same, from the actives alone
python - read-newest STORE COUNT       prints the newest version of COUNT keys
python - keep STORE                    writes and reads until /tmp/stop appears, then ten times
                                       more; meanwhile asks the Service as curl does, with one try

With an authority as PEM, requests go over https. /tmp/token-STORE has the token for a store.
"""

import json
import logging
import secrets
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from qss_client import ReadOptions, Store
from qss_client.chunks.chunk import Slice, encode_slice
from qss_client.chunks.key_hashes import partitions_of
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import commit, discover, open_writer, stage
from qss_core.errors import StoreError
from qss_core.positions import PositionJson

BEGUN, STOP = Path("/tmp/begun"), Path("/tmp/stop")
# Nodes route to a repaired Service or a new pod some seconds later.
_LIMITS = RetryLimits(deadline_s=300.0, first_contact_s=60.0)
_KEYS_KEPT = 50
_ROUNDS_AFTER = 10
_VALUE_BYTES, _ROWS_A_BATCH = 4096, 2000
_TRY_S, _BETWEEN_TRIES_S = 2.0, 0.02


def slices_of(rows: dict[str, Any], partitions: int) -> list[Slice]:
    """The rows, one slice a partition, in the order of their keys."""
    keys = sorted(rows)
    encoded = [key.encode() for key in keys]
    placed = partitions_of(pa.array(encoded, pa.binary()), partitions).tolist()
    slices = []
    for number in sorted(set(placed)):
        held = [key for key, partition in zip(keys, placed, strict=True) if partition == number]
        table = pa.table(
            {
                "key": pa.array([key.encode() for key in held], pa.binary()),
                "value": pa.array([json.dumps(rows[key]).encode() for key in held], pa.binary()),
            }
        )
        slices.append(encode_slice(number, table))
    return slices


def token_file(store: str) -> Path:
    """The file with the token for a store."""
    return Path(f"/tmp/token-{store}")


class Writer:
    """A job without Spark; each instance is a new run of the same query."""

    def __init__(self, url: str, store: str, ca_file: Path | None = None) -> None:
        self._http = SyncHttp(token_file=token_file(store), ca_file=ca_file)
        self._metadata = discover(self._http, url, store, _LIMITS)
        run = uuid.uuid4().hex
        self._run = open_writer(
            self._http, self._metadata, "e2e", query_id="e2e", run_id=run, limits=_LIMITS
        )
        last = self._run.opened.last_batch
        self.batch = 0 if last is None else last + 1

    def write(self, rows: dict[str, Any]) -> PositionJson:
        """Writes one batch; returns the position after it."""
        slices = slices_of(rows, self._metadata.definition.partitions)
        staged = stage(self._http, self._run, self.batch, f"b{self.batch}", slices, _LIMITS)
        position = {"e2e": {"0": self.batch}}
        fingerprint = str(self.batch)
        answer = commit(
            self._http,
            self._run,
            self.batch,
            staged,
            position=position,
            fingerprint=fingerprint,
            limits=_LIMITS,
        )
        self.batch += 1
        return answer.position


class OneTry:
    """Asks the Service for one key again and again, on a new connection each, until it is ended."""

    def __init__(self, url: str, name: str) -> None:
        headers = {"Authorization": f"Bearer {token_file(name).read_text().strip()}"}
        self._request = urllib.request.Request(f"{url}/state/stores/{name}/kept-0", headers=headers)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.asked = 0
        self.failures: list[str] = []

    def __enter__(self) -> "OneTry":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_BETWEEN_TRIES_S):
            self.asked += 1
            try:
                with urllib.request.urlopen(self._request, timeout=_TRY_S) as answer:
                    answer.read()
            except OSError as error:
                self.failures.append(str(error))


def keep(url: str, name: str) -> dict[str, Any]:
    """Writes and reads in turn; each read must return the last written round.

    It hands the position of the write on: a standby may be a moment behind.
    """
    writer = Writer(url, name)
    met: dict[str, Any] = {"writes": 0, "reads": 0, "wrong": [], "failures": []}
    met |= {"slowest_s": 0.0, "slowest": ""}

    def timed(act: Callable[[], None]) -> None:
        started = time.monotonic()
        try:
            act()
        except StoreError as error:
            met["failures"].append(f"{error.code}: {error.message}"[:300])
        took_s = round(time.monotonic() - started, 3)
        if took_s > met["slowest_s"]:
            ended = time.strftime("%H:%M:%S", time.gmtime())
            met.update(slowest_s=took_s, slowest=f"{act.__name__}, over at {ended}")

    position: PositionJson = {}
    with Store(url, name, token_file=token_file(name), limits=_LIMITS) as store:

        def write() -> None:
            rows = {f"kept-{number}": met["writes"] for number in range(_KEYS_KEPT)}
            nonlocal position
            position = writer.write(rows)
            met["writes"] += 1

        def read() -> None:
            is_odd = met["reads"] % 2 == 1  # Each second read is the active's to answer.
            options = ReadOptions(position_bound=position, require_active=is_odd)
            row = store.get(f"kept-{met['reads'] % _KEYS_KEPT}", options)
            met["reads"] += 1
            if row is None or row.value != met["writes"] - 1:
                met["wrong"].append(f"{row and row.value} after {met['writes']} writes")

        timed(write)
        left = _ROUNDS_AFTER  # The store must take these after its fault.
        with OneTry(url, name) as one_try:
            while left > 0:
                left -= STOP.exists()
                timed(write)
                timed(read)
                BEGUN.write_text("begun")
                if len(met["failures"]) > 20:
                    break
    reasons = sorted(set(one_try.failures))
    return met | {"tries": one_try.asked, "failed": len(one_try.failures), "reasons": reasons[:5]}


def fill(url: str, name: str, size: int) -> None:
    """Writes new keys with values of random text, in batches of a few megabytes."""
    writer = Writer(url, name)
    for first in range(0, size // _VALUE_BYTES, _ROWS_A_BATCH):
        numbers = range(first, first + _ROWS_A_BATCH)
        writer.write({f"large-{one}": secrets.token_hex(_VALUE_BYTES // 2) for one in numbers})


def main() -> None:
    """Runs one command, and prints its result as JSON."""
    command, name, *rest = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    ca_file = None
    if rest and "CERTIFICATE" in rest[-1]:
        ca_file = Path("/tmp/ca.crt")
        ca_file.write_text(rest.pop())
    url = f"http{'s' if ca_file else ''}://{name}:8080"
    said: Any = None
    if command == "write":
        count, number = map(int, rest)
        Writer(url, name, ca_file).write({f"key-{one}": number for one in range(count)})
    elif command == "fill":
        fill(url, name, int(rest[0]))
    elif command in {"read", "read-actives"}:
        token = token_file(name)
        with Store(url, name, token_file=token, ca_file=ca_file, limits=_LIMITS) as store:
            options = ReadOptions(require_active=command == "read-actives")
            said = {row.key: row.value for row in store.range(options=options)}
    elif command == "read-newest":
        with Store(url, name, token_file=token_file(name), limits=_LIMITS) as store:
            keys = [f"key-{one}" for one in range(int(rest[0]))]
            options = ReadOptions(require_active=True)
            found = {key: store.version(key, options=options) for key in keys}
            said = {key: version and version.value for key, version in found.items()}
    else:
        said = keep(url, name)
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
