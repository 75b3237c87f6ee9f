"""The umask, the resource limits and the niceness of a process: checked by name, or read from /proc (proc(5)).

The names are `umask` and those of setrlimit(2) in lower case. A limit is in the units of setrlimit(2); -1 is unlimited.
Limits that no portable shell can set, and that nobody changes for a shell, have no name here.
"""

import os
from collections.abc import Mapping

from sm.errors import UsageError

UMASK = "umask"
RESOURCES = ("cpu", "fsize", "data", "stack", "core", "nofile", "memlock", "as", "nproc")
UNLIMITED = -1
_VALUE_MAX = (1 << 63) - 1
_SELF = "self"
_LABELS = {
    "Max cpu time": "cpu",
    "Max file size": "fsize",
    "Max data size": "data",
    "Max stack size": "stack",
    "Max core file size": "core",
    "Max open files": "nofile",
    "Max locked memory": "memlock",
    "Max address space": "as",
    "Max processes": "nproc",
}
_SOFT, _HARD = slice(26, 46), slice(47, 67)


def checked_limits(given: Mapping[str, int]) -> dict[str, int]:
    """Return the known names of `given`; a newer client may send others. Raises UsageError for a wrong value."""
    known = {name: given[name] for name in (UMASK, *RESOURCES) if name in given}
    for name, value in known.items():
        least, most = (0, 0o777) if name == UMASK else (UNLIMITED, _VALUE_MAX)
        if not least <= value <= most:
            raise UsageError(f"process_limits: {name} must be a number from {least} to {most}")
    return known


def soft_limits(pid: int | str = _SELF) -> dict[str, int]:
    """The umask and the soft limits by their names, as far as the kernel shows them."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            umask = file.read().partition(b"\nUmask:")[2].partition(b"\n")[0].strip()
        return {**({UMASK: int(umask, 8)} if umask else {}), **_limits(pid, _SOFT)}
    except OSError:
        return {}


def hard_limits(pid: int | str = _SELF) -> dict[str, int]:
    """The hard limits, which only root can raise again. Raises OSError."""
    return _limits(pid, _HARD)


def niceness(pid: int = 0) -> int:
    """The niceness, which only root can lower again, or 0 for that of this process. Raises OSError."""
    return os.getpriority(os.PRIO_PROCESS, pid)


def raise_oom_score(least: int) -> str:
    """The line of a shell script that gives the shell at least that `oom_score_adj`. Its program keeps it."""
    file = "/proc/self/oom_score_adj"
    return f'{{ read -r _sm_oom <{file} && [ "$_sm_oom" -lt {least} ] && echo {least} >{file}; }} 2>/dev/null'


def _limits(pid: int | str, column: slice) -> dict[str, int]:
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        rows = file.read().split("\n")
    values = {_LABELS.get(row[:25].rstrip()): row[column].strip() for row in rows}
    return {
        name: UNLIMITED if value == "unlimited" else int(value)
        for name, value in values.items()
        if name is not None
    }
