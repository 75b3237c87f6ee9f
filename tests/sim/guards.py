"""Refuses what a simulation must not do for real: sleep, start threads and processes, connect sockets."""

import _thread
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tests.sim.lives import life_in
from tests.sim.replacing import replaced

_REFUSED = frozenset(
    [
        "time.sleep",
        "a thread",
        "socket.connect",
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.exec",
        "os.system",
        "os.kill",
    ]
)
_START_OF_THREADS = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
"""The function of `threading` that starts a thread."""
_PLAIN = frozenset(["git", "gh", "cp", "sm.capabilities.worktrees.making"])
"""Programs that run for real: what they do depends on files alone. No virtual time passes meanwhile."""
_guarded: int | None = None
"""The thread of the simulation that runs."""
_opening: Callable[..., None] | None = None
"""Is told which file the simulation opens."""


class RealAct(AssertionError):
    """Code under virtual time acts for real."""


def _refuse(event: str, arguments: Sequence[Any]) -> None:
    if event == "open":
        if _opening is not None and _guarded == threading.get_ident():
            _opening(*arguments)
    elif event in _REFUSED and _guarded == threading.get_ident():
        if event == "subprocess.Popen" and is_plain(arguments[1]):
            return
        raise RealAct(f"{event} under virtual time: {arguments!r}")


def is_plain(argv: object) -> bool:
    """True for the argv of a program that runs for real."""
    if not isinstance(argv, Sequence) or not argv:
        return False
    return os.path.basename(str(argv[0])) in _PLAIN or str(argv[-1]) in _PLAIN


sys.addaudithook(_refuse)  # for ever: an audit hook cannot be removed


def _refusing(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*arguments: Any, **more: Any) -> Any:
        _refuse(name, arguments)
        return act(*arguments, **more)

    return refuse


def _played(act: Callable[..., Any] | None, real: Callable[..., Any]) -> Callable[..., Any]:
    """`act` for the thread of the simulation, and `real` for all others."""

    def choose(*arguments: Any) -> Any:
        is_mine = act is not None and _guarded == threading.get_ident()
        return (act if is_mine and act is not None else real)(*arguments)

    return choose


def _pid_of_life(real: Callable[[], int]) -> Callable[[], int]:
    """The pid of the life whose code runs, and of this process for all other code."""

    def choose() -> int:
        life = life_in(None) if _guarded == threading.get_ident() else None
        return real() if life is None else life.pid

    return choose


@contextmanager
def guarded(
    sleep: Callable[[float], None] | None = None,
    kill: Callable[[int, int], None] | None = None,
    open_pidfd: Callable[[int], int] | None = None,
    opening: Callable[..., None] | None = None,
) -> Iterator[None]:
    """Refuse such calls of this thread.

    `sleep` lets virtual time pass for code that blocks, and `kill` signals played processes, or None if they are
    refused. `open_pidfd` watches played processes. `opening` gets the path, the mode and the flags of each file before
    it is opened, and may raise OSError.
    """
    global _guarded, _opening
    before, _guarded = _guarded, threading.get_ident()
    before_opening, _opening = _opening, opening
    try:
        with replaced(
            (subprocess, "time", SimpleNamespace(sleep=time.sleep)),
            (time, "sleep", _played(sleep, _refusing("time.sleep", time.sleep))),
            (os, "kill", _played(kill, os.kill)),
            (os, "pidfd_open", _played(open_pidfd, os.pidfd_open)),
            (os, "getpid", _pid_of_life(os.getpid)),
            (_thread, "start_new_thread", _refusing("a thread", _thread.start_new_thread)),
            (threading, _START_OF_THREADS, _refusing("a thread", vars(threading)[_START_OF_THREADS])),
        ):
            yield
    finally:
        _guarded, _opening = before, before_opening
