"""Terminal devices: those of processes, input that no process has read, and the input mode."""

import contextlib
import fcntl
import os
import struct
import termios

from sm.linux.processes import read_stat

_LOCAL_FLAGS = 3
"""The index of the local modes in the list of `termios.tcgetattr`."""

# Documentation/admin-guide/devices.txt of the kernel: the sides of pseudo terminals that programs run on.
_PTS_MAJORS = range(136, 144)


def tty_of(pid: int) -> str | None:
    """The controlling pseudo terminal as "/dev/pts/N", if any: its name for the process. See `path_of_terminal`."""
    numbers = _device_numbers(pid)
    if numbers is None or numbers[0] not in _PTS_MAJORS:
        return None
    major, minor = numbers
    return f"/dev/pts/{(major - _PTS_MAJORS.start) * 256 + minor}"


def path_of_terminal(pid: int) -> str | None:
    """A path that opens the controlling terminal of a process; None if no standard stream of the process uses it.

    A container numbers its terminals itself, so its /dev/pts/3 and that of this host are different terminals.
    """
    numbers = _device_numbers(pid)
    if numbers is None:
        return None
    for stream in range(3):
        path = f"/proc/{pid}/fd/{stream}"
        with contextlib.suppress(OSError):
            if os.stat(path).st_rdev == os.makedev(*numbers):
                return path
    return None


def _device_numbers(pid: int) -> tuple[int, int] | None:
    """The major and the minor number of the controlling terminal; zeros without one, None without the process."""
    stat = read_stat(pid)
    # tty_nr: minor in bits 31..20 and 7..0, major in bits 19..8 (proc(5)).
    return None if stat is None else (stat.tty >> 8 & 0xFFF, stat.tty & 0xFF | stat.tty >> 12 & 0xFFF00)


def has_unread_input(tty: str) -> bool:
    """True if the terminal device `tty` holds input (FIONREAD, ioctl_tty(2)), also if it cannot be opened."""
    try:
        fd = _open(tty)
    except OSError:
        return True
    try:
        (unread,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    except OSError:  # no terminal: a path of `path_of_terminal` whose program has exchanged its streams
        return True
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
