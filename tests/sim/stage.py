"""A played instance for tests that block: `Instance` of tests/instance.py without a process, and `Stage` with claude.

A test that runs `sm` and looks at the answers moves here by its imports. Between two of its lines no time passes.
"""

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from sm.client.http import new_key
from sm.core.models import Exit
from sm.core.timestamps import iso
from sm.errors import SmError
from tests.archived import ArchivedFile
from tests.played_agent import CONFIG, Agent
from tests.sim.blocking import BlockingSocket, drive
from tests.sim.command import Command, StartedCommand, Streams
from tests.sim.crashes import CrashingDaemon
from tests.sim.daemon import DaemonOptions
from tests.sim.hook_caller import HookCaller
from tests.sim.loop import VirtualLoop
from tests.sim.programs import Program, Running, environ_on_host
from tests.sim.shell import shell
from tests.sim.wire import Caller, HttpAnswer, target
from tests.sim.world import World, world_on

T = TypeVar("T")
INSTANCE_CONFIG = """
default_trust: direct
commands:
  Sh: {{command: [sh, -c]}}
  Sleeper: {{command: [sleep, "1000"], prompt: file}}
{more}
"""
_RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 40
_POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_WITHIN_S = 60.0
_LONG_S = 1_000_000.0
_LOOK_S = 0.02
_LONGEST_LOOK_S = 0.2
_stages: list["Instance"] = []


def until(found: Callable[[], T | Literal[False] | None], what: str, within_s: float = _WITHIN_S) -> T:
    """Let time pass until the result of `found` is true, and return it: `tests.waits.until` in virtual seconds."""
    stage, pause_s = _stages[-1], _LOOK_S
    until_s = stage.loop.time() + within_s
    while True:
        if answer := found():
            return answer
        assert stage.loop.time() < until_s, f"not within {within_s:g} virtual seconds: {what}"
        stage.wait(pause_s)
        pause_s = min(1.3 * pause_s, _LONGEST_LOOK_S)


class Instance:
    """As `Instance` of tests/instance.py, with a daemon, terminals and programs that are played."""

    until = staticmethod(until)

    def __init__(
        self,
        more: str = "",
        *,
        config: str | None = None,
        seed: int = 1,
        options: DaemonOptions | None = None,
        in_memory: bool = True,
    ) -> None:
        """`options`: of each daemon that starts. `in_memory`: as `world_on`."""
        text = INSTANCE_CONFIG.format(more=more) if config is None else config
        with ExitStack() as opening:  # leaves nothing open when another world has not ended
            self._begin(opening, text, seed, options, in_memory=in_memory)
            self._open = opening.pop_all()

    def _begin(
        self, opening: ExitStack, config: str, seed: int, options: DaemonOptions | None, *, in_memory: bool
    ) -> None:
        runner = opening.enter_context(asyncio.Runner(loop_factory=VirtualLoop))
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.world: World = opening.enter_context(world_on(loop, config, seed, in_memory=in_memory))
        self.world.daemon_options = options or DaemonOptions()
        self.world.programs.installed["sh"] = shell
        self.command = Command(self.world)
        opening.enter_context(self.command.connected())
        self.world.programs.sm_command = self._run_in_agent
        opening.callback(lambda: drive(loop, self.world.programs.end()))
        opening.callback(lambda: drive(loop, self.command.end()))
        self.home, self.work = self.world.home, self.world.work
        self.config = Path(self.world.paths.config)
        self.state, self.socket = Path(self.world.paths.state), Path(self.world.paths.socket)
        self.env: dict[str, str] = dict(self.world.environ)
        _stages.append(self)

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Enter a context that ends with the instance."""
        return self._open.enter_context(context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        _stages.remove(self)
        self._open.close()

    async def _run_in_agent(
        self, program: Running, arguments: Sequence[str], env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        process = program.process
        environ, cwd = {**environ_on_host(process), **(env or {})}, Path(program.file("."))
        return await self.command.run_on_loop(arguments, environ, cwd, parent=process.pid)

    def wait(self, pause_s: float) -> None:
        """Let virtual time pass."""
        drive(self.loop, asyncio.sleep(pause_s))

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.world.clocks.wall(), UTC)

    def stamp(self, file: ArchivedFile) -> None:
        """Give a file the present virtual time: the daemon writes archives with the time of this machine."""
        file.set_time(self.world.clocks.wall())
        self.wait(1)

    def settle(self, within_s: float = _WITHIN_S) -> None:
        """Let time pass until the daemon has nothing left to do but to wait."""
        drive(self.loop, self.world.settled(within_s))

    # The command

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: Path | None = None,
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real code of `sm` in this process."""
        environ = {**self.env, **self.with_token(env or {})}
        return self.command.run(arguments, environ, cwd or self.work, Streams(stdin))

    def run_inside(
        self, session_id: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `sm` as a child of the agent of a session, with `env` over its variables."""
        return drive(self.loop, self._run_in_agent(self.world.programs.running[session_id], arguments, env))

    def start_command(self, *arguments: str, env: Mapping[str, str] | None = None) -> StartedCommand:
        """Start `sm`, and return the command while it runs."""
        return self.command.start(arguments, {**self.env, **self.with_token(env or {})}, self.work)

    def as_session(self, session_id: str) -> Mapping[str, str]:
        """The variables of a process that acts as the session. They can only lower authority."""
        return self.with_token({"SM_SESSION_ID": session_id})

    def with_token(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """`env`, with the session's token file if `env` only names the session."""
        session_id = env.get("SM_SESSION_ID")
        if session_id is None or "SM_TOKEN_FILE" in env:
            return env
        return {**env, "SM_TOKEN_FILE": str(self.launch_dir / f"{session_id}.token")}

    @property
    def launch_dir(self) -> Path:
        """The directory with the tokens of the sessions."""
        return self.state / "launch"

    def sm(self, *arguments: str, **options: Any) -> str:
        """The output of `sm`, which must succeed."""
        ended = self.run(*arguments, **options)
        assert ended.returncode == 0, f"sm {arguments}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def json(self, *arguments: str, **options: Any) -> Any:
        return json.loads(self.sm(*arguments, "--json", **options))

    def refused(self, *arguments: str, exit_code: int, **options: Any) -> str:
        """The stderr of `sm`, which must fail with this exit code and print nothing on stdout."""
        ended = self.run(*arguments, **options)
        assert (ended.returncode, ended.stdout) == (exit_code, ""), f"{ended}"
        return ended.stderr

    def spawn(self, *arguments: str, **options: Any) -> dict[str, Any]:
        spawned: dict[str, Any] = self.json("spawn", *arguments, **options)
        return spawned

    def session(self, session_id: str) -> dict[str, Any]:
        """The session as in `sm status SESSION --json`."""
        try:
            found: dict[str, Any] = self.get(f"/v1/sessions/{session_id}")
        except SmError:  # the command starts a daemon if none runs, and reports errors better
            found = self.json("status", session_id)
        return found

    def get(self, path: str) -> Any:
        """The answer to a request of the operator."""
        return drive(self.loop, self.world.operator.get(path))

    def request_as(
        self, session_id: str | None, *requests: tuple[Any, ...], marks: Mapping[str, str] | None = None
    ) -> list[list[Any]]:
        """The responses to requests (method, path[, query[, body]]): `request_as` of tests/session_client.py."""
        caller = self._caller(session_id, marks)

        async def ask(
            method: str, path: str, query: Mapping[str, object] | None = None, body: Any = None
        ) -> list[Any]:
            content = (body or {}) if method == "POST" else None
            try:
                return ["ok", await caller.send(method, target(path, query or {}), content, new_key())]
            except SmError as error:
                return [error.code, error.message, error.hint]

        async def ask_all() -> list[list[Any]]:
            return [await ask(*request) for request in requests]

        return drive(self.loop, ask_all())

    def connected(self, path: str, env: Mapping[str, str] | None = None) -> BlockingSocket:
        """`connected` of raw_http.py, as a process of the operator that lives as long as the connection."""
        kernel = self.world.kernel
        environ = {**self.env, **(env or {})}
        process = kernel.start(("test",), environ, str(self.work), parent=self.world.shell.pid)
        connection = BlockingSocket(self.loop, self.world.board, process.pid)
        connection.on_close = lambda: kernel.end(process, Exit(0))
        connection.settimeout(_WITHIN_S)
        connection.connect(path)
        return connection

    def post_as(
        self, session_id: str | None, path: str, body: Mapping[str, object], key: str | None = None
    ) -> HttpAnswer:
        """The answer to a POST with the key `key`, also when it is an error."""
        caller = self._caller(session_id)
        return drive(self.loop, caller.answer("POST", path, body, key))

    def _caller(self, session_id: str | None, marks: Mapping[str, str] | None = None) -> Caller:
        """A new process of a session or of the operator, which sends requests."""
        identity = {} if session_id is None else self.as_session(session_id)
        environ = {**self.env, **identity, **(marks or {})}
        process = self.world.kernel.start(("sm",), environ, str(self.work), parent=self.world.shell.pid)
        return self.world.programs.caller(process)

    def post_together(
        self, *requests: tuple[Mapping[str, str] | None, str, Mapping[str, object]]
    ) -> list[SmError | None]:
        """Send requests (environment of the caller, path, body) at the same time. Returns the refusal of each."""

        async def post(
            env: Mapping[str, str] | None, path: str, body: Mapping[str, object]
        ) -> SmError | None:
            environ = {**self.env, **(env or {})}
            process = self.world.kernel.start(("sm",), environ, str(self.work), parent=self.world.shell.pid)
            try:
                await self.world.programs.caller(process).post(path, body)
            except SmError as error:
                return error
            return None

        async def post_all() -> list[SmError | None]:
            return await asyncio.gather(*(post(*request) for request in requests))

        return drive(self.loop, post_all())

    def ended(self, session_id: str) -> dict[str, Any]:
        """Wait until the session's process is gone and its final status is known; return the session."""

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            over = found["status"] in ("completed", "error", "abandoned", "killed")
            return found if over and (not found["pid"] or not self.lives(found["pid"])) else None

        return until(look, f"session {session_id} has ended")

    def lives(self, pid: int) -> bool:
        process = self.world.kernel.processes.get(pid)
        return process is not None and process.exit is None

    def has_terminal(self, name: str) -> bool:
        return name in self.world.server.panes

    def close_terminal(self, name: str) -> None:
        """As `tmux kill-session`."""
        self.world.server.close(name)

    def in_status(self, session_id: str, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if found["status"] == status else None

        return until(look, f"session {session_id} is {status}")

    def events(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("events", "--limit", "10000", *arguments)
        return found

    def type_line(self, session: Mapping[str, Any], text: str) -> None:
        """Type a line into the terminal of a session, as a person does."""
        server = self.world.server
        pane = server.panes[session["tmux_session"]]
        server.put(pane, ("text", text))
        server.put(pane, ("key", "Enter"))

    # The daemon

    @property
    def daemon_pid(self) -> int:
        return int(self.get("/v1/health")["pid"])

    def start_daemon(self) -> None:
        drive(self.loop, self.world.start())

    def start_crashing_daemon(self, point: str) -> CrashingDaemon:
        """Start a daemon that is dropped at a point (crash_point.py), and return when it serves or is over."""
        return self.enter(CrashingDaemon(self.world, point))

    def kill_daemon(self) -> None:
        """End the daemon without a word, as SIGKILL."""
        self.world.daemon.drop()

    def drop_after(self, steps: int) -> None:
        """End the daemon without a word between two of its callbacks, that many steps from now."""
        _ = self.world.drop_after(steps)

    def age(self, *session_ids: str) -> None:
        """Restart the daemon, and let the sessions have ended 9 days ago: the first one before the others."""
        self.kill_daemon()
        with closing(sqlite3.connect(self.world.paths.database)) as db:
            for number, session_id in enumerate(session_ids):
                at = iso((self.now() - timedelta(days=9, minutes=-number)).timestamp())
                db.execute(
                    "UPDATE sessions SET created_at = ?1, started_at = ?1, status_at = ?1, completed_at = ?1,"
                    " seen_at = ?1 WHERE id = ?2",
                    (at, session_id),
                )
            db.commit()
        self.start_daemon()

    def restart_daemon(self) -> None:
        """Stop the daemon, and start another one."""
        drive(self.loop, self.world.daemon.stop())
        self.start_daemon()

    def restart(self) -> None:
        self.kill_daemon()
        self.run("daemon", "start")


async def stand_in(program: Running) -> None:
    """Show nothing, as the script of tests/integration/played_claude.py."""
    program.set_flags(0)  # in line mode, it would count as suspended
    await asyncio.sleep(_LONG_S)


async def BOX(program: Running) -> None:
    """Show an empty input box. A test that uses it sets `daemon.ignore_evidence: [screen, title]`."""
    program.draw(_RULE, f"{_POINTER} ", _RULE, "  ? for shortcuts")
    await stand_in(program)


class Stage(Instance):
    """As `Stage` of tests/integration/played_claude.py. `draws`: the program in the terminal of claude."""

    def __init__(self, more: str = "", draws: Program = stand_in) -> None:
        super().__init__(config=CONFIG.format(claude="/usr/bin/stand-in") + more)
        self.world.programs.installed["stand-in"] = draws
        self.start_daemon()
        self._agents: list[Agent] = []

    def agent(self, kind: str = "Plain", *arguments: str, **options: Any) -> Agent:
        agent = Agent(self, self.spawn(kind, "work", *arguments, **options)["session_id"])
        self._agents.append(agent)
        return agent

    def hook_of(self, session_id: str) -> HookCaller:
        return HookCaller(self.world, {**self.env, **self.as_session(session_id)})

    def messages(self, agent: Agent) -> list[str]:
        return [message["text"] for message in self.json("log", agent.id)]

    def end(self) -> None:
        for agent in self._agents:
            agent.end()
        super().end()
