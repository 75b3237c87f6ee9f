"""Terminal devices: input that no process has read."""

import fcntl
import os
import struct
import termios


def has_unread_input(tty: str) -> bool:
    """True if the terminal device `tty` holds input (FIONREAD, ioctl_tty(2)), also if it cannot be opened."""
    try:
        # O_NOCTTY: the device must not become the controlling terminal of this process.
        fd = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        (unread,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    finally:
        os.close(fd)
    return bool(unread)
