"""Reads the umask, the resource limits and the niceness of a process from /proc (proc(5))."""

import os

from sm.core.process_limits import UMASK, UNLIMITED

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


def soft_limits(pid: int | str = _SELF) -> dict[str, int]:
    """The umask and the soft limits, by the names of `core.process_limits`, as far as the kernel shows them."""
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
