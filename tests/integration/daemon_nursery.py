"""Real daemons that start quickly, and that may be told where to die: `python -m tests.integration.daemon_nursery`.

This process has everything imported, and forks a daemon for each line it reads; so a daemon takes a tenth of the
time, and hundreds of them can be started and killed. The line is empty, or names a crash point:
`CLASS.METHOD before|after N`, where the daemon kills itself with the N-th call. Answered on stdout by the pid, and
later by what the daemon itself says to whoever started it.
"""

import functools
import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sm.daemon import main as daemon
from sm.sandboxes.host import HostSandbox
from sm.sessions.manager import Manager
from sm.sessions.spawn import Spawner
from sm.store import Store, Transaction
from sm.terminals.tmux.create import PaneCreator
from sm.terminals.tmux.terminals import Tmux

PARTS = {
    part.__name__: part for part in (HostSandbox, Manager, PaneCreator, Spawner, Store, Tmux, Transaction)
}


def crash_at(point: str) -> None:
    """Let this process die as by `kill -9` at `point`; the part is the real one in everything else."""
    place, when, number = point.split()
    part, _, name = place.partition(".")
    method: Callable[..., Any] = getattr(PARTS[part], name)
    calls = 0

    def begin() -> bool:
        """Whether this is the call to die in."""
        nonlocal calls
        calls += 1
        mine = calls == int(number)
        if mine and when == "before":
            die()
        return mine

    @functools.wraps(method)
    async def dying(*arguments: Any, **options: Any) -> Any:
        mine = begin()
        result = await method(*arguments, **options)
        if mine:
            die()
        return result

    @asynccontextmanager
    async def dying_context(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        mine = begin()
        async with method(*arguments, **options) as entered:
            yield entered
        if mine:
            die()

    is_context = inspect.isasyncgenfunction(inspect.unwrap(method))
    setattr(PARTS[part], name, dying_context if is_context else dying)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: a daemon that is gone must look gone
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            if line.strip():
                crash_at(line)
            told = os.dup(1)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os._exit(daemon.main(["--ready-fd", str(told)]))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
