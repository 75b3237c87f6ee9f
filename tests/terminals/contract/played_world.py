"""The played terminal server in place of tmux, for the tests of the contract. It knows the tmux commands of these."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from sm.core.models import Exit
from sm.linux.kernel import replaced_kernel
from sm.terminals.base import Terminals
from tests.sim.clocks import Clocks
from tests.sim.lives import Life
from tests.sim.loop import VirtualLoop
from tests.sim.processes import PlayedKernel
from tests.sim.programs import Programs
from tests.sim.shell import shell
from tests.sim.terminals import PlayedServer
from tests.sim.wire import Switchboard
from tests.terminals.world import INSTANCE


class PlayedWorld:
    """As `World` of tests/terminals/world.py."""

    is_played = True

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._stack = ExitStack()
        self.home = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sm-")))
        self._clocks = Clocks(loop)
        self._kernel = PlayedKernel(loop)
        self._stack.enter_context(replaced_kernel(self._kernel))
        self._stack.callback(self._kernel.close)
        self._server = PlayedServer(loop, self._kernel, self._clocks.wall)
        self._programs = Programs(self._server, self._kernel, Switchboard(loop), "/nowhere")
        self._programs.installed["sh"] = shell

    @property
    def socket_path(self) -> Path:
        """A file that exists while the server runs."""
        return self.home if self._server.process is not None else self.home / "no-server"

    @asynccontextmanager
    async def terminals(self, instance: str = INSTANCE) -> AsyncIterator[Terminals]:
        async with self._server.client(instance, Life("daemon")) as terminals:
            yield terminals

    @asynccontextmanager
    async def attached(self, command: Sequence[str]) -> AsyncIterator[int]:
        name = command[-1].removeprefix("=").removesuffix(":")
        client = self._kernel.start(command, {}, "/", tty=self._kernel.new_tty())
        self._server.attach(self._server.panes[name], client)
        yield client.pid
        self._kernel.end(client, Exit(0))

    def now_s(self) -> float:
        return self._clocks.wall()

    def server_pid(self) -> int:
        assert self._server.process is not None
        return self._server.process.pid

    def sessions(self) -> list[str]:
        return list(self._server.panes)

    def tmux(self, *command: str) -> list[str]:
        match command:
            case ["new-session", "-d", "-s", name, line]:
                self._server.add("", "", name, "/", ("/bin/sh", "-c", line))
                return []
            case ["list-panes", "-a", "-F", "#{session_name} #{pane_pid}"]:
                return [f"{pane.name} {pane.process.pid}" for pane in self._server.panes.values()]
            case ["list-buffers"]:
                return []
            case ["kill-session", "-t", target]:
                self._server.close(target.removeprefix("="))
                return []
            case ["kill-server"]:
                self._server.kill()
                return []
            case _:
                raise AssertionError(f"the played server does not know tmux {' '.join(command)}")

    async def end(self) -> None:
        await self._programs.end()
        self._stack.close()
