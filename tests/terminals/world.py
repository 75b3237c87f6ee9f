"""An isolated tmux for each test: a private socket directory, a private home, and no access to other servers."""

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from libtmux.common import tmux_cmd

from sm.config.model import TmuxSection
from sm.linux.processes import identify
from sm.terminals.tmux.terminals import Tmux
from tests.person_terminal import PersonTerminal
from tests.private_tmux import private_server
from tests.waits import NEVER_S, until_async

INSTANCE = "0b5e55ed-1111-4222-8333-444455556666"
T = TypeVar("T")


class World:
    """`socket_name` None is tmux's default server, which is private here (TMUX_TMPDIR)."""

    starts_processes = True
    is_played = False

    def __init__(self, socket_name: str | None = None, conf: str = "") -> None:
        # Not pytest's tmp_path: it has the name of the test, so the path of a socket would be too long.
        self.home = Path(tempfile.mkdtemp(prefix="sm-"))
        self.socket_name = socket_name
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMUX_TMPDIR": str(self.home),
            "SHELL": "/bin/sh",
        }
        (self.home / ".tmux.conf").write_text(conf)
        self.server = private_server(socket_name or "default", self.home, self.environment)

    @property
    def socket_path(self) -> Path:
        return self.home / f"tmux-{os.getuid()}" / (self.socket_name or "default")

    def terminals(self, instance: str = INSTANCE, *, timeout_s: float | None = None) -> Tmux:
        within_s = NEVER_S if timeout_s is None else timeout_s
        settings = TmuxSection(socket_name=self.socket_name, history_limit=5000)
        return Tmux(instance, settings, self.environment, timeout_s=within_s)

    def run(self, *command: str) -> tmux_cmd:
        """Run one tmux command with libtmux, independently of the code under test."""
        return self.server.cmd(*command)

    def tmux(self, *command: str) -> list[str]:
        done = self.run(*command)
        assert done.returncode == 0, f"tmux {command}: {done.stderr}"
        return done.stdout

    @asynccontextmanager
    async def attached(self, command: Sequence[str]) -> AsyncIterator[int]:
        """Show a terminal to a person by the command, until the end of the block. Gives the process of the client."""
        with PersonTerminal(command, {**self.environment, "TERM": "xterm"}, 80, 24) as person:
            name = await until(lambda: self._client(person.pid))
            yield person.pid
            self.tmux("detach-client", "-t", name)

    def _client(self, pid: int) -> str:
        """The name of the client with this process; empty until it is attached."""
        clients = self.tmux("list-clients", "-F", "#{client_pid} #{client_name}")
        return next((line.partition(" ")[2] for line in clients if line.startswith(f"{pid} ")), "")

    def now_s(self) -> float:
        """The time in seconds since the epoch."""
        return time.time()

    def server_pid(self) -> int:
        (line,) = self.tmux("display-message", "-p", "#{pid}")
        return int(line)

    def sessions(self) -> list[str]:
        """The names of all sessions; empty if no server runs."""
        return self.run("list-sessions", "-F", "#{session_name}").stdout

    async def end(self) -> None:
        """End the private server and wait until it is gone."""
        pid = self.run("display-message", "-p", "#{pid}").stdout
        self.run("kill-server")
        if pid:
            await until(lambda: ended(int(pid[0])))
        shutil.rmtree(self.home)


def ended(pid: int) -> bool:
    """True if the process is gone or a zombie: its parent may reap it late."""
    return identify(pid) is None


async def until(condition: Callable[[], T]) -> T:
    """Wait until `condition` is true, and return its value."""

    async def call() -> T:
        return condition()

    return await until_async(call)


def sh(script: str) -> tuple[str, str, str]:
    return ("/bin/sh", "-c", script)


__all__ = ["INSTANCE", "World", "ended", "sh", "until", "until_async"]
