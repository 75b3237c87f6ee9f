"""Terminal devices: those of processes, input that no process has read, and the input mode."""

import contextlib
import os
import termios

from sm.linux.kernel import kernel
from sm.linux.processes import read_stat

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
            if kernel().status(path).st_rdev == os.makedev(*numbers):
                return path
    return None


def _device_numbers(pid: int) -> tuple[int, int] | None:
    """The major and the minor number of the controlling terminal; zeros without one, None without the process."""
    stat = read_stat(pid)
    # tty_nr: minor in bits 31..20 and 7..0, major in bits 19..8 (proc(5)).
    return None if stat is None else (stat.tty >> 8 & 0xFFF, stat.tty & 0xFF | stat.tty >> 12 & 0xFFF00)


def has_unread_input(tty: str) -> bool:
    """True if the terminal device `tty` holds unread input, also if it cannot be asked.

    A path of `path_of_terminal` is no terminal any more when its program has exchanged its streams.
    """
    try:
        return kernel().unread_bytes(tty) > 0
    except OSError:
        return True


def is_in_line_mode(tty: str) -> bool:
    """True if the kernel collects whole lines (ICANON, termios(3)): no program with an input box reads its keys.

    False if the device cannot be asked.
    """
    try:
        return bool(kernel().local_flags(tty) & termios.ICANON)
    except OSError:
        return False
