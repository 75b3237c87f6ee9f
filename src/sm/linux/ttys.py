"""Terminal devices: input that no process has read, and the input mode."""

import fcntl
import os
import struct
import termios

_LOCAL_FLAGS = 3
"""The index of the local modes in the list of `termios.tcgetattr`."""


def has_unread_input(tty: str) -> bool:
    """True if the terminal device `tty` holds input (FIONREAD, ioctl_tty(2)), also if it cannot be opened."""
    try:
        fd = _open(tty)
    except OSError:
        return True
    try:
        (unread,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    finally:
        os.close(fd)
    return bool(unread)


def is_in_line_mode(tty: str) -> bool:
    """True if the kernel collects whole lines (ICANON, termios(3)): no program with an input box reads its keys.

    False if the device cannot be opened.
    """
    try:
        fd = _open(tty)
    except OSError:
        return False
    try:
        flags: int = termios.tcgetattr(fd)[_LOCAL_FLAGS]
    except termios.error:
        return False
    finally:
        os.close(fd)
    return bool(flags & termios.ICANON)


def _open(tty: str) -> int:
    # O_NOCTTY: the device must not become the controlling terminal of this process.
    return os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
