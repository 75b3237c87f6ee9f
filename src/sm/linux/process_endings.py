"""Waits for the end of processes, and ends them.

Apart from `processes`, so that a short process, which only reads /proc, does not load asyncio.

Sources: pidfd_open(2), pidfd_send_signal(2).
"""

import asyncio
import functools
import os
import signal
from collections.abc import Callable, Iterable

from sm.core.models import Process
from sm.linux.processes import is_alive, open_pidfd, process_tree, signal_process


class ProcessWatch:
    """Reports the end of processes without polling, in the event loop that runs when it is created.

    Takes one file descriptor per live process.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds: dict[Process, int] = {}
        self._soon: dict[Process, asyncio.Handle] = {}

    def watch(self, process: Process, on_gone: Callable[[], None]) -> None:
        """Call `on_gone` once from the loop when the process has ended, also when it is already gone.

        A second watch of a process replaces the first. Raises OSError when no file descriptor is left.
        """
        self.unwatch(process)
        fd = open_pidfd(process)
        if fd is None:
            self._soon[process] = self._loop.call_soon(self._report_exit, process, on_gone)
        else:
            self._fds[process] = fd
            # A pidfd becomes readable when its process is a zombie and has an exit status.
            self._loop.add_reader(fd, self._report_exit, process, on_gone)

    def _report_exit(self, process: Process, on_gone: Callable[[], None]) -> None:
        self.unwatch(process)
        on_gone()

    def unwatch(self, process: Process) -> None:
        """Drop the callback. Idempotent."""
        fd = self._fds.pop(process, None)
        if fd is not None:
            self._loop.remove_reader(fd)
            os.close(fd)
        handle = self._soon.pop(process, None)
        if handle is not None:
            handle.cancel()

    def close(self) -> None:
        """Unwatch everything. Idempotent."""
        for process in (*self._fds, *self._soon):
            self.unwatch(process)


async def _wait_gone(processes: Iterable[Process], timeout_s: float) -> None:
    waiting = set(processes)
    nothing_left = asyncio.Event()

    def remove(process: Process) -> None:
        waiting.discard(process)
        if not waiting:
            nothing_left.set()

    watch = ProcessWatch()
    try:
        for process in tuple(waiting):
            watch.watch(process, functools.partial(remove, process))
        if waiting:
            async with asyncio.timeout(timeout_s):
                await nothing_left.wait()
    except TimeoutError:
        pass
    finally:
        watch.close()


# The number of processes to wait for in parallel: a very large tree must not use up the file descriptors.
_BATCH = 128
_KILL_S = 10.0


def _no_others() -> Iterable[Process]:
    return ()


async def end_tree(
    process: Process, grace_s: float, *, force: bool, others: Callable[[], Iterable[Process]] = _no_others
) -> list[Process]:
    """End a process and its `process_tree`: SIGTERM, and SIGKILL after `grace_s` seconds.

    `force` skips SIGTERM. `others` is called in a thread at each look, and returns further processes to end with their
    trees. Processes that the tree starts meanwhile are ended too. Returns an empty list when all are
    gone. Returns the remaining processes after 10 more seconds: processes stuck in the kernel, and processes of
    another user (sudo), which cannot be signalled and are not waited for.
    """
    loop = asyncio.get_running_loop()
    known = {process: None}
    foreign: set[Process] = set()

    async def look() -> list[Process]:
        # One look that finds nothing is no evidence: between the fork of a child and the end of its parent, a list of
        # pids may have only the parent, which is gone when it is read. So the callers look twice.
        # In a thread: reading /proc takes milliseconds on a busy machine. Every process that was ever in the tree is
        # a root, because a process that ended leaves its children to init.
        left = await asyncio.to_thread(lambda: process_tree(*known, *others()))
        known.update(dict.fromkeys(left))
        return [process for process in left if process not in foreign]

    def send(process: Process, *signums: int) -> None:
        try:
            for signum in signums:
                signal_process(process, signum)
        except PermissionError:
            foreign.add(process)

    async def wait(processes: Iterable[Process]) -> None:
        await _wait_gone([p for p in processes if p not in foreign][:_BATCH], deadline - loop.time())

    deadline = loop.time() + (0 if force else grace_s)
    while (left := await look() or await look()) and loop.time() < deadline:
        for member in left:
            # A stopped process handles SIGTERM only when it is continued.
            send(member, signal.SIGTERM, signal.SIGCONT)
        await wait(left)
    deadline = loop.time() + _KILL_S
    while left and loop.time() < deadline:
        for member in left:
            send(member, signal.SIGKILL)
        await wait(left)
        left = await look() or await look()
    return [*left, *filter(is_alive, foreign)]
