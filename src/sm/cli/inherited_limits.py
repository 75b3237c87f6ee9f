"""Compares the hard limits and the niceness of a process with those of this shell, for `sm doctor`.

An agent inherits both from the tmux server, and only root can raise a hard limit or lower the niceness again.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from sm.linux.process_limits import UNLIMITED, hard_limits, niceness

_WORDS = {
    "cpu": "seconds of CPU time",
    "fsize": "bytes in a file",
    "data": "bytes of data",
    "stack": "bytes of stack",
    "core": "bytes of a core file",
    "nofile": "open files",
    "memlock": "bytes of locked memory",
    "as": "bytes of address space",
    "nproc": "processes",
}
_NICENESS = "niceness"


class Loss(NamedTuple):
    """A hard limit of a process that is lower than that of this shell, or its niceness that is higher."""

    name: str
    value: int
    wanted: int

    def __str__(self) -> str:
        if self.name == _NICENESS:
            return f"niceness {self.value} in place of {self.wanted}"
        most = "no limit" if self.wanted == UNLIMITED else f"{self.wanted:,}"
        return f"at most {self.value:,} {_WORDS[self.name]} in place of {most}"


def losses(pid: int) -> list[Loss]:
    """Find what a process has less than this shell. Empty when the process is gone, or belongs to another user."""
    try:
        found, nice = hard_limits(pid), niceness(pid)
    except OSError:
        return []
    lower = [
        Loss(name, found[name], wanted)
        for name, wanted in hard_limits().items()
        if _is_lower(found[name], wanted)
    ]
    return lower if nice <= niceness() else [*lower, Loss(_NICENESS, nice, niceness())]


def command_to_raise(pid: int, found: Sequence[Loss]) -> str:
    """The commands that give a running process the limits and the niceness of this shell."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    limits = [
        f"--{loss.name}=:{'unlimited' if loss.wanted == UNLIMITED else loss.wanted}"
        for loss in found
        if loss.name != _NICENESS
    ]
    commands = [f"{sudo}prlimit --pid {pid} {' '.join(limits)}"] if limits else []
    commands += [f"{sudo}renice {loss.wanted} -p {pid}" for loss in found if loss.name == _NICENESS]
    return " && ".join(commands)


def _is_lower(value: int, wanted: int) -> bool:
    return value != UNLIMITED and (wanted == UNLIMITED or value < wanted)
