"""Played queues of file events: those of this kernel, which a test loses, delays or makes overflow."""

import asyncio
import os
import struct

from sm.linux.inotify import IN_Q_OVERFLOW, LinuxNotices

_OVERFLOW = struct.pack("iIII", -1, IN_Q_OVERFLOW, 0, 0)


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
        self.are_lost = False
        """Events from now on never arrive, as on a network mount."""
        self.delay_s = 0.0
        """Events from now on arrive so much later."""
        self.overflows = False
        """The next events overflow their queue: the reader is told that events were lost, and nothing else."""

    def open(self) -> int:
        source = self._linux.open()
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
        return self._linux.add(self._queues[queue].source, path, mask)

    def remove(self, queue: int, number: int) -> None:
        self._linux.remove(self._queues[queue].source, number)

    def read(self, queue: int) -> bytes:
        found = self._queues[queue]
        os.eventfd_read(queue)
        events, found.waiting = b"".join(found.waiting), []
        return events

    def close(self, queue: int) -> None:
        found = self._queues.pop(queue)
        asyncio.get_running_loop().remove_reader(found.source)
        os.close(found.source)
        os.close(queue)
