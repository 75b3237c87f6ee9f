"""An event loop with virtual time for whole daemons: time passes only when nothing else is left to do.

No thread runs: what code gives to a thread is a callback of the loop. So a run depends on nothing but the code.
"""

import asyncio
import errno
import heapq
import io
import selectors
import socket
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from typing import Any
from weakref import WeakSet

from tests.sim.lives import Life, life_in

BEGIN_S = 1000.0
registered_tasks: "WeakSet[asyncio.Task[Any]]" = getattr(
    asyncio.tasks, "_all_tasks" if sys.version_info < (3, 12) else "_scheduled_tasks"
)
"""The tasks that asyncio looks through whenever a loop is closed. The buried ones of a loop keep others for ever."""
_STEPS_MAX = 1_000_000
"""Callbacks without a passing of time: more is an endless loop."""


class _NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set, such as those of `asyncio.wait`, depends on no address of this process."""

    def __init__(self, number: int, coro: Any, **more: Any) -> None:
        self._number = number
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """One step is one callback: between two of them a process can be dropped.

    `on_skip` is called after each passing of time. `steps` counts the callbacks.
    """

    def __init__(self) -> None:
        self._now_s = BEGIN_S
        self._skipped_at = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap by time. At the same time, the older timer is first."""
        self._timers_made = self._timers_cancelled = self._tasks_made = 0
        self._quiet: list[asyncio.Future[None]] = []
        self._interruptions: list[tuple[int, int, Callable[[], None]]] = []
        self._interrupted = 0
        self.steps = 0
        self.steps_max = _STEPS_MAX
        self.on_skip: Callable[[], None] = lambda: None
        self.serve: Callable[[socket.socket, Callable[[], asyncio.BaseProtocol]], Any] | None = None
        """Listens on a bound socket."""
        super().__init__(selectors.DefaultSelector())

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # of BaseEventLoop
        self._queue_due_timers(ready)
        if not ready:
            # inotify has queued the events of everything that was written, and a played pidfd is readable at once.
            self._process_events(self._selector.select(0))  # type: ignore[attr-defined]
        if not ready:
            self._pass_time()
            return
        handle = ready.popleft()
        if handle.cancelled():
            return
        self.steps += 1
        handle._run()
        while self._interruptions and self.steps >= self._interruptions[0][0]:
            heapq.heappop(self._interruptions)[2]()
        if self.steps - self._skipped_at > self.steps_max:
            raise AssertionError(f"endless loop: no time passes\n{stacks(self)}")

    def _queue_due_timers(self, ready: "deque[asyncio.Handle]") -> None:
        timers = self._timers
        while timers and (timers[0][0] <= self._now_s or timers[0][2]._cancelled):
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                ready.append(timer)

    def _pass_time(self) -> None:
        """Nothing is left to do at this time: wake those who wait for that, or go on to the next timer."""
        if self._quiet:
            quiet, self._quiet = self._quiet, []
            for future in quiet:
                if not future.done():
                    future.set_result(None)
            return
        timers = self._timers
        if self._stopping:  # type: ignore[attr-defined]
            return
        if not timers:
            raise AssertionError(f"deadlock: every task waits, and no timer is set\n{stacks(self)}")
        self._now_s = timers[0][0]
        self._skipped_at = self.steps
        self.on_skip()

    async def quiet(self) -> None:
        """Wait until nothing is left to do at this time. No time passes."""
        future = self.create_future()
        self._quiet.append(future)
        await future

    def interrupt_after(self, steps: int, call: Callable[[], None]) -> None:
        """Call once between two callbacks, that many steps from now."""
        self._interrupted += 1
        heapq.heappush(self._interruptions, (self.steps + steps, self._interrupted, call))

    def forget_interruptions(self) -> None:
        """Call nothing of what `interrupt_after` still holds."""
        self._interruptions.clear()

    # Lives

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As the method of the base class, without its calls: every step passes here."""
        life = life_in(context)
        if life is not None and life.is_dropped:
            return _nothing(self)
        if self._closed:  # type: ignore[attr-defined]
            self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        life, timer = life_in(context), asyncio.TimerHandle(when, callback, args, self, context)
        if life is not None and life.is_dropped:
            timer.cancel()
            return timer
        self._check_closed()  # type: ignore[attr-defined]
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Remove cancelled timers when they are most of the heap."""
        self._timers_cancelled += 1
        if self._timers_cancelled > 100 and 2 * self._timers_cancelled > len(self._timers):
            self._timers_cancelled = 0
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)

    def close(self) -> None:
        super().close()
        self._timers.clear()
        for task in [task for task in registered_tasks if task.get_loop() is self]:
            asyncio.tasks._unregister_task(task)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        self._tasks_made += 1
        task = _NumberedTask(self._tasks_made, coro, loop=self, name=name, context=context)
        life = life_in(context)
        if life is not None:
            life.begin(task)
        return task

    def drop(self, life: Life) -> list[int]:
        """End a life without a word. Returns its watched file descriptors, which the caller closes."""
        life.is_dropped = True
        for handle in (*self._ready, *(entry[2] for entry in self._timers)):  # type: ignore[attr-defined]
            if life_in(handle._context) is life:
                handle.cancel()
        watched = [
            key.fd
            for key in self._selector.get_map().values()  # type: ignore[attr-defined]
            if any(h is not None and life_in(h._context) is life for h in key.data)
        ]
        for fd in watched:
            self.remove_reader(fd)
        life.bury()
        return watched

    def _asyncgen_firstiter_hook(self, agen: Any) -> None:
        if life_in(None) is None:  # the end of the loop ends the generators that it knows
            super()._asyncgen_firstiter_hook(agen)  # type: ignore[misc]

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        *,
        sock: socket.socket,
        **_: Any,
    ) -> Any:
        assert self.serve is not None
        return self.serve(sock, protocol_factory)

    async def create_unix_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], path: str | None = None, **_: Any
    ) -> Any:
        """No engine runs."""
        raise FileNotFoundError(errno.ENOENT, "no such socket", path)

    # Threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        future = self.create_future()
        self.call_soon(self._run_inline, future, func, args)
        return future

    def _run_inline(
        self, future: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        if future.cancelled():
            return
        asyncio._set_running_loop(None)  # as in a thread
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - as a thread passes on every error
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            asyncio._set_running_loop(self)


def _nothing(loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
    handle = asyncio.Handle(lambda: None, (), loop)
    handle.cancel()
    return handle


def stacks(loop: asyncio.AbstractEventLoop) -> str:
    """The stack of each task."""
    text = io.StringIO()
    for task in asyncio.all_tasks(loop):
        task.print_stack(limit=8, file=text)
    return text.getvalue()
