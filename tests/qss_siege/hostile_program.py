"""`python -m qss_siege.hostile_program KIND SHARE TARGET`: callers of one kind, until SIGTERM.

It runs with nice 19, so that the load takes no processor time from the good clients. It prints a
line when it has begun, and at SIGTERM the results of its attempts and their numbers, as a line of
JSON.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from collections import Counter

import msgspec
import uvloop

from qss_siege.hostile import KINDS, Caller, Kind, attempt
from qss_siege.target import Target


async def run(name: str, share: float, target: Target) -> Counter[str]:
    """Counts the attempts of all callers; attempts that have not ended are not counted."""
    kind, outcomes = KINDS[name], Counter[str]()
    first = 1 + 10 * list(KINDS).index(name)
    tls = target.trust()
    callers = max(1, round(kind.callers * share))
    tasks = []
    for number in range(callers):
        address = f"127.0.1.{first + number % kind.addresses}"
        caller = Caller(target, tls, address, number)
        # Callers begin one after another, so that the load is even.
        begins_s = max(2.0, kind.pause_s) * number / callers
        tasks.append(asyncio.create_task(_again_and_again(kind, caller, begins_s, outcomes)))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    _say("begun")
    await stop.wait()
    for task in tasks:
        if task.done():
            task.result()  # A caller that has ended has a bug: its error ends the program.
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return outcomes


async def _again_and_again(
    kind: Kind, caller: Caller, begins_s: float, outcomes: Counter[str]
) -> None:
    await asyncio.sleep(begins_s)
    while True:
        outcomes[await attempt(kind, caller)] += 1
        await asyncio.sleep(kind.pause_s)


def main() -> None:
    """Runs the callers and prints their results."""
    name, share, told = sys.argv[1:]
    os.nice(19)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target = msgspec.json.decode(told, type=Target)
    outcomes = uvloop.run(run(name, float(share), target))
    _say(json.dumps(outcomes))


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
