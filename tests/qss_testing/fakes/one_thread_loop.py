"""An event loop without other threads: work for a thread runs in a turn of the loop.

A switch to a thread takes longer than a simulated disk, and then the machine decides the order.
Here other tasks get a turn before the work, and another one before its result is known, so every
run has the same order.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

import uvloop

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class OneThreadLoop(uvloop.Loop):
    """The event loop of the pods."""

    def run_in_executor(  # type: ignore[override]  # uvloop's own gives a future, too.
        self,
        executor: Executor | None,
        func: Callable[[*Arguments], Result],
        *args: *Arguments,
    ) -> "asyncio.Future[Result]":
        """Runs the work for any executor."""
        done: asyncio.Future[Result] = self.create_future()
        self.call_soon(self._run, done, func, args)
        return done

    def _run(
        self,
        done: "asyncio.Future[Result]",
        func: Callable[[*Arguments], Result],
        args: tuple[*Arguments],
    ) -> None:
        """Runs even without a waiting task: a thread would have begun."""
        try:
            result = func(*args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 as a thread of an executor.
            self.call_soon(_tell_failure, done, error)
        else:
            self.call_soon(_tell, done, result)


# If the waiting task was cancelled, the result is dropped.


def _tell(done: "asyncio.Future[Result]", result: Result) -> None:
    if not done.done():
        done.set_result(result)


def _tell_failure(done: "asyncio.Future[Result]", error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
