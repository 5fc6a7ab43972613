"""An event loop that a seed drives: nodes run in turns, work takes time, and a node can die.

Each task and callback belongs to the node in whose context it was made. A node runs its callbacks
in their order; the seed chooses the node that runs next. Each turn takes simulated time, so timers
fire in the middle of work. Work that the product gives to threads runs in the loop, some time after
it was given and some time before its result is known. There are no threads and no sockets.

A dead node never runs again: nothing is cancelled, and no `finally` runs. A paused node runs later.
Each node reads its own clock, which may be quicker or slower than the loop's.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from math import log
from random import Random  # noqa: TID251 seeded by the story.
from typing import Any, TypeVar, TypeVarTuple
from weakref import WeakSet

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

WORLD = "world"  # The node of the story, the network and the faults: it never dies.
_NODE: contextvars.ContextVar[str] = contextvars.ContextVar("node", default=WORLD)
_TURNS_A_SECOND = 10_000.0  # While a node can run, a turn takes 0.1 ms.
_LONG_TURNS_A_SECOND = 200.0
_LONG_TURNS = 0.02
_TURNS_MAX = 3_000_000


@cache
def host_of(node: str) -> str:
    """The machine of a node: a process that starts again is another node of it."""
    return node.partition("#")[0]


def context_of(node: str) -> contextvars.Context:
    """A context for work of a node."""
    context = contextvars.copy_context()
    context.run(_NODE.set, node)
    return context


def current_node() -> str:
    """The node that runs now."""
    return _NODE.get()


class _Task(asyncio.Task[Any]):
    """A task that has its place in a set by its number, not by its address in memory."""

    def __init__(self, number: int, *args: Any, **options: Any) -> None:
        """The number comes first: asyncio puts the task into a set at once."""
        self._number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """A future that has its place in a set by its number."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        """A future without a result."""
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SeededLoop(asyncio.BaseEventLoop):
    """Runs everything in simulated time, which begins at 0."""

    def __init__(self, random: Random) -> None:
        """`random` chooses the next node and the length of turns."""
        super().__init__()
        self.now_s = 0.0
        self.turns = 0
        self.rates: dict[str, float] = {}  # The rates of the machines' clocks; by default 1.
        self.work_s: dict[str, float] = {}  # The mean time of a machine's work in threads.
        # The mean time of a machine's syncs, which have threads of their own.
        self.sync_s: dict[str, float] = {}
        self._random = random
        self._draw = random.random
        self._bits = random.getrandbits
        self._queues: dict[str, deque[asyncio.Handle]] = {}
        self._timers: list[tuple[float, int, asyncio.TimerHandle, str]] = []
        self._numbers = 0
        self._dead: set[str] = set()
        self._paused: set[str] = set()
        self._tasks: dict[str, WeakSet[asyncio.Task[Any]]] = {}
        self._graves: list[object] = []  # A task that is forgotten would run its `finally`.
        self._at_end: list[Callable[[], None]] | None = None  # Effects of the work that runs now.

    # --- Nodes

    def kill(self, node: str) -> None:
        """Ends a node: none of its callbacks, timers and tasks runs again."""
        self._dead.add(node)
        self._paused.discard(node)
        self._graves += [self._queues.pop(node, None), list(self._tasks.pop(node, ()))]

    def pause(self, node: str) -> None:
        """Stops a node; what happens to it meanwhile waits until `resume`."""
        self._paused.add(node)

    def resume(self, node: str) -> None:
        """Lets a paused node go on."""
        self._paused.discard(node)

    def is_dead(self, node: str) -> bool:
        """Whether the node was killed."""
        return node in self._dead

    def start(self, node: str, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """Starts work of a node."""
        return self.create_task(work, context=context_of(node))

    def bury(self) -> None:
        """Ends all nodes, and forgets them; nothing of the run is used afterwards."""
        for node in [*self._queues, *self._tasks]:
            self.kill(node)
        self._dead.add(WORLD)
        for tasks in self._graves:
            for task in tasks if isinstance(tasks, list) else ():
                task._log_destroy_pending = False  # noqa: SLF001 each of them is meant to.
        self._graves.clear()
        self._timers.clear()

    # --- What asyncio calls

    def time(self) -> float:
        """The seconds of the running node's clock."""
        return self.now_s * self.rates.get(host_of(_NODE.get()), 1.0)

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Queues a callback of the context's node."""
        handle = asyncio.Handle(callback, args, self, context)
        self._queue(_node_of(context), handle)
        return handle

    call_soon_threadsafe = call_soon  # There are no threads.

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queues a callback when the node's clock shows `when`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        node = _node_of(context)
        self._numbers += 1
        at_s = max(self.now_s, when / self._rate(node))
        heapq.heappush(self._timers, (at_s, self._numbers, handle, node))
        return handle

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[Any]":
        """A task of the context's node."""
        self._numbers += 1
        task = _Task(
            self._numbers,
            coro,
            loop=self,
            name=None if name is None else str(name),
            context=context,
        )
        self._tasks.setdefault(_node_of(context), WeakSet()).add(task)
        return task

    def create_future(self) -> "asyncio.Future[Any]":
        """A future with a number of its own."""
        self._numbers += 1
        return _Future(self._numbers, loop=self)

    def run_in_executor(
        self, executor: object, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> "asyncio.Future[Result]":
        """Begins the work a while later, and tells its result another while later."""
        done: asyncio.Future[Result] = self.create_future()
        is_sync = executor is not None
        self.call_later(self._work_s(is_sync=is_sync), self._begin, done, func, args, is_sync)
        return done

    def at_end(self, effect: Callable[[], None]) -> None:
        """Calls `effect` when the work that runs now ends; at once outside of such work."""
        if self._at_end is None:
            effect()
        else:
            self._at_end.append(effect)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is skipped when it is due."""

    def _write_to_self(self) -> None:
        """There is no sleeping selector to wake."""

    # --- Turns

    def _run_once(self) -> None:
        runnable = [
            node for node, queue in self._queues.items() if queue and node not in self._paused
        ]
        if not runnable:
            if not self._timers:
                raise AssertionError("everything waits, and nothing will happen")
            self.now_s = max(self.now_s, self._timers[0][0])
            self._fire()
            return
        self.turns += 1
        if self.turns > _TURNS_MAX:
            raise AssertionError(f"the run has not ended after {_TURNS_MAX} turns")
        a_second = _LONG_TURNS_A_SECOND if self._draw() < _LONG_TURNS else _TURNS_A_SECOND
        self.now_s -= log(1.0 - self._draw()) / a_second
        if self._timers and self._timers[0][0] <= self.now_s:
            self._fire()
        handle = self._queues[self._one_of(runnable)].popleft()
        if not handle._cancelled:  # noqa: SLF001 what an event loop does.
            handle._run()  # noqa: SLF001

    def _one_of(self, nodes: list[str]) -> str:
        """One of some nodes: `Random.choice` in a third of its time."""
        count = len(nodes)
        bits = count.bit_length()
        while (number := self._bits(bits)) >= count:
            pass
        return nodes[number]

    def _fire(self) -> None:
        """Queues the callbacks of the timers that are due."""
        timers = self._timers
        while timers and timers[0][0] <= self.now_s:
            _, _, handle, node = heapq.heappop(timers)
            if not handle._cancelled:  # noqa: SLF001 what an event loop does.
                self._queue(node, handle)

    def _queue(self, node: str, handle: asyncio.Handle) -> None:
        if node in self._dead:
            self._graves.append(handle)
        else:
            queue = self._queues.get(node)
            if queue is None:
                queue = self._queues[node] = deque()
            queue.append(handle)

    def _rate(self, node: str) -> float:
        return self.rates.get(host_of(node), 1.0)

    # --- Work of threads

    def _work_s(self, *, is_sync: bool) -> float:
        host = host_of(current_node())
        mean_s = self.work_s.get(host, 0.001)
        if is_sync:
            mean_s = self.sync_s.get(host, mean_s)
        return self._random.expovariate(1 / mean_s)

    def _begin(
        self,
        done: "asyncio.Future[Result]",
        func: Callable[[*Arguments], Result],
        args: tuple[*Arguments],
        is_sync: bool,
    ) -> None:
        result: Result | None = None
        failure: BaseException | None = None
        with self._effects() as effects:
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 as a thread of an executor.
                failure = error
        self.call_later(self._work_s(is_sync=is_sync), _end, done, result, failure, effects)

    @contextmanager
    def _effects(self) -> Iterator[list[Callable[[], None]]]:
        effects: list[Callable[[], None]] = []
        self._at_end = effects
        try:
            yield effects
        finally:
            self._at_end = None


def _end(
    done: "asyncio.Future[Any]",
    result: Any,
    failure: BaseException | None,
    effects: list[Callable[[], None]],
) -> None:
    for effect in effects:
        effect()
    if done.done():
        return  # The waiting task was cancelled.
    if failure is not None:
        done.set_exception(failure)
    else:
        done.set_result(result)


def _node_of(context: contextvars.Context | None) -> str:
    return current_node() if context is None else context.get(_NODE, WORLD)
