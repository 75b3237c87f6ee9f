"""Waits until the client has read what `sm mcp` wrote to stdout.

A client speaks only when it wants something, so the kernel's count of unread bytes is the evidence. Imports C modules
only, as the pump does.
"""

import fcntl
import posix
import time

_PIPE_UNREAD = 0x541B  # FIONREAD, which also works on the end that writes
_SOCKET_UNREAD = 0x5411  # SIOCOUTQ: bytes that the other end has not read (unix(7))
_FORMAT, _FIFO = 0o170000, 0o010000
"""From stat.h: the module `stat` would cost a millisecond."""
_PAUSE_S = 0.005


def wait_for_reader(fd: int, within_s: float) -> bool:
    """Return True when all bytes written to `fd` are read, and False after `within_s`.

    `fd`: the end of a pipe or of a Unix socket. False for a file of another kind too: nothing is known of its readers.
    """
    deadline = time.monotonic() + within_s
    try:
        is_pipe = posix.fstat(fd).st_mode & _FORMAT == _FIFO
        while _unread_bytes(fd, _PIPE_UNREAD if is_pipe else _SOCKET_UNREAD):
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)
    except OSError:
        return False
    return True


def _unread_bytes(fd: int, request: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, request, bytes(4)), "little")
