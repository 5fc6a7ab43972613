"""Gives each pod of a store its partitions, once: `python assign.py assignment.json`.

`qss up` and the operator do so again and again, and let standbys take over; this program ends.
"""

import sys
from pathlib import Path

from qss_client.http.sync_http import SyncHttp
from qss_core.model import StoreAssignment
from qss_core.wire.messages import decode, encode
from qss_core.wire.versions import OWN_VERSION

_OPENING_S = 60.0  # A pod opens its replicas before it answers.


def main() -> None:
    """Sends the assignment to all pods; a pod that has it already keeps it."""
    assignment = decode(Path(sys.argv[1]).read_bytes(), StoreAssignment)
    headers = {"Content-Type": "application/json", **OWN_VERSION}
    http = SyncHttp()
    for pod in assignment.pods:
        url = f"{pod.changelog}/control/assignment"
        body = encode(assignment)
        http.request("PUT", url, body=body, headers=headers, timeout_s=_OPENING_S)
        sys.stdout.write(f"{pod.name} has its partitions\n")
    http.close()


if __name__ == "__main__":
    main()
