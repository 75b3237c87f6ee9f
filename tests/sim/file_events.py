"""Played queues of file events: those of this kernel, which a test loses, delays or makes overflow."""

import asyncio
import errno
import os
import struct
from contextlib import suppress

from sm.linux.inotify import IN_Q_OVERFLOW, LinuxNotices

_OVERFLOW = struct.pack("iIII", -1, IN_Q_OVERFLOW, 0, 0)
_spare: list[int] = []
"""Queues of this kernel that have no watches and no events. The kernel takes 10 ms to close one."""


class _Queue:
    """The queue of this kernel behind the one that the daemon reads."""

    def __init__(self, source: int) -> None:
        self.source = source
        self.waiting: list[bytes] = []


class PlayedNotices:
    """`FileNotices` whose events come at once, unless a test says otherwise. It outlives every daemon."""

    def __init__(self) -> None:
        self._linux = LinuxNotices()
        self._queues: dict[int, _Queue] = {}
        self._watches: dict[int, set[int]] = {}
        """The watches of each queue of this kernel."""
        self.are_lost = False
        """Events from now on never arrive, as on a network mount."""
        self.delay_s = 0.0
        """Events from now on arrive so much later."""
        self.overflows = False
        """The next events overflow their queue: the reader is told that events were lost, and nothing else."""

    def open(self) -> int:
        source = _spare.pop() if _spare else self._linux.open()
        self._watches[source] = set()
        queue = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._queues[queue] = _Queue(source)
        asyncio.get_running_loop().add_reader(source, self._take, queue)
        return queue

    def _take(self, number: int) -> None:
        """Move events of the kernel to the queue of their reader."""
        queue = self._queues[number]
        events = self._linux.read(queue.source)
        if self.overflows:
            self.overflows, events = False, _OVERFLOW
        if self.are_lost:
            return
        if self.delay_s:
            asyncio.get_running_loop().call_later(self.delay_s, self._put, number, queue, events)
        else:
            self._put(number, queue, events)

    def _put(self, number: int, queue: _Queue, events: bytes) -> None:
        if self._queues.get(number) is queue:  # else it was closed
            queue.waiting.append(events)
            os.eventfd_write(number, 1)

    def add(self, queue: int, path: str, mask: int) -> int:
        source = self._queues[queue].source
        if path.startswith("/dev/pts/"):
            # The terminal of this number in this machine, if any, is that of a process outside.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        number = self._linux.add(source, path, mask)
        self._watches[source].add(number)
        return number

    def remove(self, queue: int, number: int) -> None:
        source = self._queues[queue].source
        self._watches[source].discard(number)
        self._linux.remove(source, number)

    def read(self, queue: int) -> bytes:
        found = self._queues[queue]
        os.eventfd_read(queue)
        events, found.waiting = b"".join(found.waiting), []
        return events

    def close(self, queue: int) -> None:
        source = self._queues[queue].source
        asyncio.get_running_loop().remove_reader(source)
        self.close_watched(source)
        self.close_watched(queue)

    def close_watched(self, fd: int) -> None:
        """Close a descriptor that a daemon watched until it was dropped."""
        if (watches := self._watches.pop(fd, None)) is None:
            self._queues.pop(fd, None)
            os.close(fd)
            return
        for number in watches:
            self._linux.remove(fd, number)
        with suppress(BlockingIOError):
            while True:
                self._linux.read(fd)
        _spare.append(fd)
