"""Reads from the kernel why a running program reads no input from its terminal.

Sources: proc(5), credentials(7), termios(3).
"""

import os
from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.models import Process
from sm.linux.kernel import kernel
from sm.linux.processes import command_line, read_stat
from sm.linux.ttys import is_in_line_mode, path_of_terminal, tty_of


class NoInput(StrEnum):
    """Why a program reads no input. The value completes a sentence about the program."""

    STOPPED = "it is stopped"
    BACKGROUND_JOB = "it is stopped in the background of a shell"
    """A shell started the program and reads the terminal now (Ctrl-Z)."""
    OTHER_PROGRAM = "another program has its terminal"
    """The program started an editor, and waits for the end of the editor."""
    LINE_MODE = "it is suspended"
    """The program prepared its terminal for a shell and was continued immediately (Ctrl-Z in tmux, without a shell)."""


RESUMABLE = frozenset({NoInput.STOPPED, NoInput.LINE_MODE})
"""SIGCONT makes the program read its terminal again."""


@dataclass(frozen=True, slots=True)
class InputLoss:
    kind: NoInput
    program: str = ""
    """The name of the other program."""


def input_loss(process: Process, *, reads_terminal: bool) -> InputLoss | None:
    """The reason why the process reads no input, or None if it reads or has ended. Blocks: call it in a thread.

    `reads_terminal`: the process itself reads the terminal, and is not the wrapper of the program that does.
    """
    stat = read_stat(process.pid)
    if stat is None or stat.process != process or stat.gone:
        return None
    if stat.stopped:
        in_background = stat.foreground_group not in (-1, stat.group)
        return InputLoss(NoInput.BACKGROUND_JOB if in_background else NoInput.STOPPED)
    tty = tty_of(process.pid)
    if tty is None:
        return None
    child = _child_on_terminal(process, tty) if reads_terminal else None
    if child is not None:
        return InputLoss(NoInput.OTHER_PROGRAM, _name(child))
    device = path_of_terminal(process.pid)
    return InputLoss(NoInput.LINE_MODE) if device is not None and is_in_line_mode(device) else None


def _child_on_terminal(process: Process, tty: str) -> int | None:
    """The innermost descendant that reads this terminal as its stdin: a shell that runs an editor reads it too.

    A child that has just been forked has the terminal too, until it executes its program.
    """
    pid = process.pid
    # What a child executes is read first: it keeps the terminal then.
    while child := next((c for c in _children(pid) if _has_executed(c, pid) and _stdin(c) == tty), None):
        pid = child
    return None if pid == process.pid else pid


def _has_executed(child: int, parent: int) -> bool:
    """True if a child runs a program of its own, which may be the same one with the same arguments."""
    program = _program(child)
    return bool(program[0]) and program != _program(parent)


def _program(pid: int) -> tuple[tuple[str, ...], int]:
    """The arguments of the program that a process executes, empty for none, and the address of its stack."""
    stat = read_stat(pid)
    return command_line(pid), 0 if stat is None else stat.stack


def _children(pid: int) -> list[int]:
    """The children of the main thread. Empty if the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    try:
        return [int(child) for child in kernel().read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def _stdin(pid: int) -> str | None:
    try:
        return kernel().link(f"/proc/{pid}/fd/0")
    except OSError:
        return None


def _name(pid: int) -> str:
    argv = command_line(pid)
    return os.path.basename(argv[0]) if argv else "a program"
