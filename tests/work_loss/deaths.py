"""Lets a command of `sm`, or the process that makes a worktree, die in the middle, as SIGKILL does.

A command dies in the process of the test: the next thing that it would change raises, and so does each one after it,
also in its `finally`. The process that makes worktrees is a real one, and kills itself.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from greenlet import getcurrent  # type: ignore[import-untyped]

from sm.capabilities.worktrees.git.scratch import GIT_DIRECTORY

T = TypeVar("T")
_EVENTS = frozenset(
    (
        "subprocess.Popen",
        "os.mkdir",
        "os.rmdir",
        "os.remove",
        "os.rename",
        "os.symlink",
        "os.truncate",
        "shutil.rmtree",
    )
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_READING = frozenset(
    (
        "config", "diff", "for-each-ref", "log", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse", "status",
        "version", "cat-file", "hash-object", "merge-tree",
    )
)  # fmt: skip
"""Commands of git that change nothing: to die before one is to die after it."""


class Killed(BaseException):
    """SIGKILL of the code that runs."""


class _Death:
    """The death before the change of that number."""

    def __init__(self, changes: int) -> None:
        self.left = changes
        self.has_come = False


_death: _Death | None = None
_by_signal = False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    death = _death
    if death is None or not _is_change(event, arguments):
        return
    if not _by_signal and getcurrent().parent is None:
        return  # the daemon, which runs in the same process
    death.left -= 1
    if death.left < 0 or death.has_come:
        death.has_come = True
        if _by_signal:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Killed


def _is_change(event: str, arguments: tuple[object, ...]) -> bool:
    if event == "open":
        path, flags = arguments[0], arguments[2]
        is_write = isinstance(flags, int) and flags & _WRITES
        return bool(is_write) and not _is_passing(path)
    if event not in _EVENTS:
        return False
    if event == "subprocess.Popen":
        argv = arguments[1]
        assert isinstance(argv, list | tuple)
        return not _READING & set(map(str, argv))
    if event in ("os.symlink", "os.rename"):
        return not _is_passing(arguments[1])
    return not _is_passing(_whole(arguments))


def _whole(arguments: tuple[object, ...]) -> object:
    """The path of a call that may be relative to an open directory."""
    path, above = arguments[0], arguments[-1]
    if isinstance(path, str) and not path.startswith("/") and isinstance(above, int) and above >= 0:
        return f"{os.readlink(f'/proc/self/fd/{above}')}/{path}"
    return path


def _is_passing(path: object) -> bool:
    """True for the git directory of one command, which nobody misses."""
    return (
        not isinstance(path, str | bytes)
        or GIT_DIRECTORY in os.fsdecode(path)
        or os.fsdecode(path).startswith("/dev/null")
    )


_is_watching = False


def _begin() -> None:
    global _is_watching
    if not _is_watching:
        sys.addaudithook(_watch)  # for ever: an audit hook cannot be removed
        _is_watching = True


def run_until_death(changes: int | None, command: Callable[[], T]) -> T | None:
    """Run a command that dies before the change of that number, from 0, if there is one.

    Returns None if it has died.
    """
    global _death
    _begin()
    _death = None if changes is None else _Death(changes)
    try:
        return command()
    except Killed:
        return None
    finally:
        _death = None


def die_by_signal(changes: int) -> None:
    """Let this process kill itself before the change of that number."""
    global _death, _by_signal
    _begin()
    _death, _by_signal = _Death(changes), True
