"""Runs blocking calls on files in threads, of which only a few wait for the same mount.

A file system that does not answer, such as NFS without its server, never returns from a call. Threads that wait for it
must not be all threads of the daemon, and must not keep the daemon from ending.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from sm.linux.mount_points import mount_points

P = ParamSpec("P")
T = TypeVar("T")

PER_MOUNT_MAX: Final = 2
_THREADS_MAX = 16
_MOUNTS_KNOWN_S = 5.0


class _Threads(Executor):
    """As `ThreadPoolExecutor`, with threads that do not keep the process from ending."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._number = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        if not self._idle.acquire(blocking=False) and self._number < self._most:
            self._number += 1
            threading.Thread(target=self._work, name=f"sm-files-{self._number}", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # noqa: BLE001 - the caller gets every error
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del future, call
            self._idle.release()


_threads = _Threads(_THREADS_MAX)


class FileThreads:
    """The calls of one daemon. Those for one mount wait for each other, `PER_MOUNT_MAX` at a time."""

    def __init__(self) -> None:
        self._limits: dict[str, asyncio.Semaphore] = {}
        self._late: set[asyncio.Task[Any]] = set()
        """Calls of `run_each` that took too long."""
        self._mounts: list[str] = []
        self._known_until_s = 0.0

    async def run(self, path: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns, which blocks on files at the absolute `path`.

        A call whose caller is cancelled goes on, and counts until it returns. A link counts for the mount that it lies
        in, not for its target's: to look for that could block.
        """
        limit = self._limits.setdefault(self._mount_of(path), asyncio.Semaphore(PER_MOUNT_MAX))
        await limit.acquire()
        try:
            context = contextvars.copy_context()
            running = asyncio.get_running_loop().run_in_executor(
                _threads, partial(context.run, call, *args, **kwargs)
            )
        except BaseException:
            limit.release()
            raise
        running.add_done_callback(lambda _: limit.release())
        return await asyncio.shield(running)

    async def run_each(
        self, paths: Mapping[str, str], call: Callable[[Collection[str]], T], within_s: float
    ) -> list[T]:
        """Return what `call` returns for the keys of the paths in each mount.

        Leaves out the mounts that do not answer within that time, and those of which an earlier call goes on.
        """
        keys: dict[str, list[str]] = {}
        for key, path in paths.items():
            keys.setdefault(self._mount_of(path), []).append(key)
        self._late = {task for task in self._late if not task.done()}
        late = {task.get_name() for task in self._late}
        tasks = [
            asyncio.create_task(self.run(place, call, some), name=place)
            for place, some in keys.items()
            if place not in late
        ]
        if not tasks:
            return []
        done, pending = await asyncio.wait(tasks, timeout=within_s)
        self._late |= pending
        return [task.result() for task in done]

    def _mount_of(self, path: str) -> str:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._known_until_s:
            self._mounts = sorted(mount_points(os.getpid()) or (), key=len, reverse=True)
            self._known_until_s = now_s + _MOUNTS_KNOWN_S
        return next((place for place in self._mounts if f"{path}/".startswith(f"{place.rstrip('/')}/")), "/")
