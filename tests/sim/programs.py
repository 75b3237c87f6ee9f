"""Runs played programs in terminals: carries out the launch script, and then calls the program of that name."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from sm.core.models import Exit
from sm.sandboxes.launch import FAILED, NO_DIRECTORY
from tests.sim.containers import PlayedContainer
from tests.sim.docker_exec import DockerExec, order_of
from tests.sim.engine import PlayedEngine
from tests.sim.panes import PlayedPane
from tests.sim.processes import PlayedKernel, PlayedProcess
from tests.sim.scripts import NOT_FOUND, parse_script
from tests.sim.terminals import PlayedServer
from tests.sim.wire import Caller, Switchboard

_SHELL_S = 0.003
"""How long the shell needs from its start to the exec of the agent."""
WAY_IN = ("/bin/sh",)
"""Runs a launch script. A played program takes the environment of the script alone anyway."""
_NO_LIFE = Context()


class Ended(Exception):
    """The program ends with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Running:
    """A program that runs in a terminal: what its code can see and do."""

    def __init__(self, world: "Programs", pane: PlayedPane, process: PlayedProcess | None = None) -> None:
        """`process`: by default that of the terminal."""
        self._world = world
        self.pane = pane
        self.process = process or pane.process

    def file(self, path: str) -> str:
        """The path on this machine of a path as the program names it."""
        path = os.path.join(self.process.cwd, path)
        return path if self.container is None else self.container.host_path(path)

    @property
    def kernel(self) -> PlayedKernel:
        return self._world.kernel

    @property
    def terminal_call_s(self) -> float:
        """The time that each call of sm to the terminal server takes."""
        return self._world.server.call_s

    @property
    def container(self) -> PlayedContainer | None:
        place = self.process.place
        return place if isinstance(place, PlayedContainer) else None

    @property
    def argv(self) -> tuple[str, ...]:
        return self.process.argv

    @property
    def environ(self) -> Mapping[str, str]:
        return self.process.environ

    @property
    def session_id(self) -> str:
        return self.environ["SM_SESSION_ID"]

    @property
    def sm(self) -> Caller:
        """Requests that the program sends to the daemon."""
        return self._world.caller(self.process)

    @property
    def sm_command(self) -> "SmCommand | None":
        """Runs the command `sm` with arguments, or None if it is not installed."""
        return self._world.sm_command

    def print(self, text: str) -> None:
        self.write(text + "\n")

    def write(self, text: str) -> None:
        self._world.server.print(self.pane, text)

    def draw(self, *lines: str) -> None:
        self._world.server.draw(self.pane, lines)

    def title(self, text: str) -> None:
        self._world.server.set_title(self.pane, text)

    @property
    def flags(self) -> int:
        """The local modes of the terminal."""
        return self._world.kernel.flags[self.pane.tty]

    def set_flags(self, flags: int) -> None:
        """Set the local modes of the terminal, such as 0 for raw input."""
        self._world.kernel.flags[self.pane.tty] = flags

    def signal(self, pid: int, number: int = signal.SIGTERM) -> None:
        """Send a signal to a process by the pid that the program knows."""
        for process in tuple(self._world.kernel.processes.values()):
            if process.place is self.process.place and pid in (process.inside, process.pid):
                self._world.kernel.signal(process, number)

    def is_installed(self, name: str) -> bool:
        """Return whether a program of that name can run, other than the shell."""
        return name != "sh" and os.path.basename(name) in self._world.installed

    async def become(self, argv: Sequence[str]) -> int:
        """Run another program in this process, and return its exit code."""
        self.process.argv = tuple(argv)
        return await self._world.installed[os.path.basename(argv[0])](self) or 0

    def react(self, reaction: Coroutine[Any, Any, int | None]) -> None:
        """Run a reaction beside the program, and end with its exit code unless that is None."""
        self._world.react(self, reaction)

    async def read(self) -> tuple[str, str]:
        return await self._world.server.read(self.pane)

    async def read_line(self) -> str:
        line = ""
        while (what := await self.read()) != ("key", "Enter"):
            line += what[1] if what[0] == "text" else ""
        return line


SmCommand = Callable[[Running, Sequence[str]], Awaitable["subprocess.CompletedProcess[str]"]]
Program = Callable[[Running], Awaitable[int | None]]
"""The code of a program: returns its exit code, None for 0."""


async def sleep(program: Running) -> None:
    await asyncio.sleep(float(program.argv[1]))


async def cat(program: Running) -> None:
    while True:
        program.print(await program.read_line())


def environ_on_host(process: PlayedProcess) -> Mapping[str, str]:
    """The environment of a process, with the paths of sm on this machine."""
    place = process.place
    if not isinstance(place, PlayedContainer):
        return process.environ
    paths = ("SM_SOCKET", "SM_TOKEN_FILE")
    return {n: place.host_path(v) if n in paths else v for n, v in process.environ.items()}


class Programs:
    """Every program that is installed, by its name. A new program is an entry of `installed`."""

    def __init__(self, server: PlayedServer, kernel: PlayedKernel, board: Switchboard, socket: str) -> None:
        self.server = server
        self.kernel = kernel
        self.engine: PlayedEngine | None = None
        self._board = board
        self._socket = socket
        self.installed: dict[str, Program] = {"sleep": sleep, "cat": cat}
        self.sm_command: SmCommand | None = None
        self.running: dict[str, Running] = {}
        """By session id."""
        self._tasks: set[asyncio.Task[None]] = set()
        server.run = self._begin

    def caller(self, process: PlayedProcess) -> Caller:
        environ = environ_on_host(process)
        socket = self._socket if process.place is None else environ["SM_SOCKET"]
        return Caller(self._board, socket, process.pid, environ)

    def _begin(self, pane: PlayedPane) -> None:
        # Without the context of the daemon that opened the terminal: the program outlives it.
        task = asyncio.get_running_loop().create_task(self._run(pane), context=_NO_LIFE)
        self._keep(task)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon(task.cancel, context=_NO_LIFE)

        pane.process.on_end.append(stop)

    async def _run(self, pane: PlayedPane) -> None:
        process = pane.process
        await asyncio.sleep(_SHELL_S)
        if self.engine is not None and (order := order_of(process.argv)) is not None:
            command = DockerExec(self.engine, self.kernel, pane, order)
            become = partial(self._become, pane)
            self.kernel.end(process, Exit(await command.run(self._start_apart, become)))
            return
        if process.argv[:-1] == WAY_IN:
            code = self._launch(process)
            if code is not None:
                self.kernel.end(process, Exit(code))
                return
        self.kernel.end(process, Exit(await self._become(pane, process)))

    def _start_apart(self, agent: Awaitable[None]) -> None:
        async def run() -> None:
            await agent

        self._keep(asyncio.get_running_loop().create_task(run(), context=_NO_LIFE))

    async def _become(self, pane: PlayedPane, process: PlayedProcess) -> int:
        """Run the program of a process, and return its exit code."""
        program = self.installed[os.path.basename(process.argv[0])]
        running = Running(self, pane, process)
        self.running[process.environ.get("SM_SESSION_ID", pane.name)] = running
        try:
            return await program(running) or 0
        except Ended as ended:
            return ended.code

    def _launch(self, process: PlayedProcess) -> int | None:
        """Become the agent, as the launch script of the daemon says. Returns the exit code of a failed start."""
        script = process.argv[-1]
        with open(script, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        directory, argv, environ = parse_script(text)
        failed: int | None = None
        if not os.path.isdir(directory):
            failed = NO_DIRECTORY
        elif os.path.basename(argv[0]) not in self.installed:
            failed = NOT_FOUND
        if failed is not None:
            words = (str(process.pid), str(failed), environ.get("PATH", ""), argv[0], directory)
            with open(script + FAILED, "w", encoding="utf-8") as file:
                file.write("".join(f"{word}\0" for word in words))
            return failed
        process.argv, process.environ, process.cwd = tuple(argv), environ, directory
        process.script = text
        with open(
            script, "rb"
        ):  # an exec closes the script: inotify reports it after the process has changed
            pass
        return None

    def react(self, running: Running, reaction: Coroutine[Any, Any, int | None]) -> None:
        async def run() -> None:
            if (code := await reaction) is not None:
                self.kernel.end(running.process, Exit(code))

        self._keep(asyncio.get_running_loop().create_task(run(), context=_NO_LIFE))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Stop every program."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
