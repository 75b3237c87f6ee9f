"""The played command `docker exec -it` in a terminal: connects an agent in a container with the terminal."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass

from sm.core.models import Exit
from sm.paths import INSIDE_HOME, INSIDE_SCRATCH
from sm.sandboxes.docker.start_report import FOLDER
from sm.sandboxes.launch import FAILED, NO_DIRECTORY
from tests.sim.containers import PlayedContainer
from tests.sim.engine import PlayedEngine
from tests.sim.panes import PlayedPane
from tests.sim.processes import PlayedKernel, PlayedProcess
from tests.sim.program_search import exit_of_exec
from tests.sim.scripts import parse_script

_EXEC_S = 0.02
"""How long the engine needs to start a command."""
_SHELL_S = 0.003
_NO_SCRIPT = 2

Become = Callable[[PlayedProcess], Awaitable[int | None]]
"""Runs the program of a process, and returns its exit code."""


@dataclass(frozen=True, slots=True)
class _Order:
    """The arguments of one `docker exec`."""

    words: str
    """The file that gets the complaints of the command."""
    container: str
    script: str

    @property
    def session_id(self) -> str:
        return os.path.basename(self.script)


def order_of(argv: tuple[str, ...]) -> _Order | None:
    """None for another command."""
    if argv[:2] != ("/bin/sh", "-c") or "exec" not in argv:
        return None
    return _Order(argv[3], argv[argv.index("--user") + 2], argv[-1])


class DockerExec:
    """One run of the command. The agent goes on without it."""

    def __init__(self, engine: PlayedEngine, kernel: PlayedKernel, pane: PlayedPane, order: _Order) -> None:
        self._engine = engine
        self._kernel = kernel
        self._pane = pane
        self._order = order

    async def run(self, start: Callable[[Awaitable[None]], None], become: Become) -> int:
        """Start the agent with `start`, and return the exit code of the command."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._complain("")
        if self._engine.process is None:
            self._complain(f"Cannot connect to the Docker daemon at {self._engine.url}.")
            return 1
        self._pane.process.argv = ("docker", "-H", self._engine.url, "exec")
        self._engine.clients.add(answer)
        try:
            self._engine.ask(lambda: start(self._agent(answer, become)))
            return await answer
        finally:
            self._engine.clients.discard(answer)

    def _complain(self, words: str) -> None:
        with open(self._order.words, "w", encoding="utf-8") as file:
            file.write(words)

    async def _agent(self, answer: "asyncio.Future[int]", become: Become) -> None:
        await asyncio.sleep(_EXEC_S)
        container = self._engine.find(self._order.container)
        if self._engine.process is None:
            return
        if container is None or not container.is_running:
            self._complain(f"Error response from daemon: container {self._order.container} is not running")
            _set(answer, 1)
            return
        pane = self._pane.process
        process = self._kernel.start(
            ("/bin/sh", self._order.script, str(pane.pid)), {}, "/", tty=pane.tty, place=container
        )
        exec_id = self._engine.new_id()
        container.execs[exec_id] = process
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def notice_end() -> None:
            container.execs.pop(exec_id, None)
            exit = process.exit or Exit()
            code = (exit.code or 0) if exit.signal is None else 128 + exit.signal
            Context().run(self._engine.ask, lambda: _set(answer, code))  # whoever ended the process
            if task is not None:
                loop.call_soon(task.cancel)
            loop.call_soon(self._kernel.reap, process)

        process.on_end.append(notice_end)
        # The command has its terminal in raw mode: a key goes through it, to the terminal of the agent.
        pane.handlers[signal.SIGINT] = lambda: self._kernel.signal(process, signal.SIGINT)
        await asyncio.sleep(_SHELL_S)
        code = self._launch(process, container)
        if code is None:
            code = await become(process)
        self._kernel.end(process, Exit(code or 0))

    def _launch(self, process: PlayedProcess, container: PlayedContainer) -> int | None:
        """Become the agent, as the launch script says. Returns the exit code of a failed start."""
        script = container.host_path(self._order.script)
        try:
            with open(script, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except FileNotFoundError:
            return _NO_SCRIPT
        directory, argv, environ = parse_script(text)
        home = f"{INSIDE_HOME}/{FOLDER}"
        for path in (home, f"{INSIDE_SCRATCH}/{self._order.session_id}"):
            os.makedirs(container.host_path(path), exist_ok=True)
        if directory.startswith(INSIDE_SCRATCH + "/"):
            os.makedirs(container.host_path(directory), exist_ok=True)
        failed: int | None = None
        if not os.path.isdir(container.host_path(directory)):
            failed = NO_DIRECTORY
        else:
            failed = exit_of_exec(argv, environ, directory, container.host_path)
        if failed is not None:
            words = (process.argv[-1], str(failed), environ.get("PATH", ""), argv[0], directory)
            report = container.host_path(f"{home}/{self._order.session_id}{FAILED}")
            with open(report, "w", encoding="utf-8") as file:
                file.write("".join(f"{word}\0" for word in words))
            return failed
        terminal = {name: value for name, value in self._pane.process.environ.items() if name == "TERM"}
        process.argv, process.environ, process.cwd = tuple(argv), {**terminal, **environ}, directory
        process.script = text
        with suppress(FileNotFoundError), open(script, "rb"):  # as an exec, which closes the script
            pass
        return None


def _set(answer: "asyncio.Future[int]", code: int) -> None:
    if not answer.done():
        answer.set_result(code)
