"""An event loop without other threads: what would run in one runs in its own, in a turn of its own.

A hand-over to a thread costs more than what a simulated disk does, and who comes first then follows
from the machine. Here others have their turns before the work, and after it before its result is
known: what threads may lead to happens in each run alike.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

import uvloop

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class OneThreadLoop(uvloop.Loop):
    """The loop that pods have."""

    def run_in_executor(  # type: ignore[override]  # uvloop's own gives a future, too.
        self,
        executor: Executor | None,
        func: Callable[[*Arguments], Result],
        *args: *Arguments,
    ) -> "asyncio.Future[Result]":
        """Whichever executor it would be."""
        done: asyncio.Future[Result] = self.create_future()
        self.call_soon(self._run, done, func, args)
        return done

    def _run(
        self,
        done: "asyncio.Future[Result]",
        func: Callable[[*Arguments], Result],
        args: tuple[*Arguments],
    ) -> None:
        """Also where nobody waits for it any more: a thread would have begun."""
        try:
            result = func(*args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 as a thread of an executor.
            self.call_soon(_tell_failure, done, error)
        else:
            self.call_soon(_tell, done, result)


# Where the waiting task was cancelled, nobody is told.


def _tell(done: "asyncio.Future[Result]", result: Result) -> None:
    if not done.done():
        done.set_result(result)


def _tell_failure(done: "asyncio.Future[Result]", error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
