"""An instance of sm to measure: a separate home and tmux server, and the real daemon. Removes everything at the end."""

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from sm.client.http import Client, new_key
from sm.core.models import Exit, Launch, Session
from sm.core.states import Mode, TrustLevel
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.core.usage import Usage
from sm.store import Store
from tests.left_cgroups import remove_cgroups

SM = str(Path(sys.executable).with_name("sm"))
"""The `sm` command of the installation that runs this."""
PASS = (sys.executable, "-c", "pass")
"""The floor of every command: the start of Python."""

_CONFIG = """
default_trust: direct
tmux: {socket_name: bench}
limits: {max_per_workspace: 10000}
commands:
  Sleep: {command: [sleep, "1000000"]}
  Sh: {command: [sh, -c]}
  Typed: {command: [sh, -c], input: tty}
claude:
  default_command: %s
  agent_configs: {Claude: {}}
"""
# Publishes its state like the real claude (claude-code 2.1.197, sessions/PID.json), then sleeps.
_STAND_IN = """\
#!/bin/sh
mkdir -p "$HOME/.claude/sessions"
printf '{"pid":%d,"sessionId":"%s","status":"idle","statusUpdatedAt":%d}' \\
    "$$" "CONVERSATION" "$(date +%s%3N)" >"$HOME/.claude/sessions/$$.json"
stty raw -echo  # in line mode, it would count as suspended
exec sleep 1000000
"""
CONVERSATION = "0b0e7c1e-0000-4000-8000-000000000001"
"""The conversation of every stand-in."""
_DEADLINE_S = 60.0
_LATELY_S = 7200.0
_OLD_S = 2 * 86_400.0
_BETWEEN_S = 86_400.0 / 55
_FIRST_OLD = 1 << 24
# An empty server with aiohttp and aiosqlite: the minimum cost of such a daemon.
_BARE = """
import asyncio, sys
import aiosqlite
from aiohttp import web

async def main():
    async def hello(request):
        return web.Response(text="{}")
    app = web.Application()
    app.router.add_get("/v1/health", hello)
    async with aiosqlite.connect(sys.argv[1] + ".db") as db:
        await db.execute("CREATE TABLE IF NOT EXISTS t (x)")
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.UnixSite(runner, sys.argv[1]).start()
        print('{"ready": true}', flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


class Connection:
    """A persistent HTTP connection, so that neither connecting nor an HTTP library is measured."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_DEADLINE_S)
        self._socket.connect(path)

    def close(self) -> None:
        self._socket.close()

    def raw(self, method: str, path: str, body: object = None) -> bytes:
        """The raw body of the answer. Raises RuntimeError for a refusal."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: sm\r\nSM-Protocol: 1\r\nContent-Length: {len(content)}\r\n"
        key = f"Idempotency-Key: {new_key()}\r\n" if method == "POST" else ""
        self._socket.sendall(f"{head}{key}\r\n".encode() + content)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        answer, _, rest = data.partition(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        pieces, left = [rest], length - len(rest)
        while left > 0:
            pieces.append(self._more())
            left -= len(pieces[-1])
        text = b"".join(pieces)
        if not answer.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{method} {path}: {text.decode()}")
        return text

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the daemon closed the connection")
        return data

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return json.loads(self.raw(method, path, body))


class Instance:
    """A running daemon with `stored` ended sessions in its database. Use it as a context manager.

    `history`: further ones, each of which used tokens, that ended in the months before, 55 a day.
    `daemon`: the module to run as the daemon. `config`: further lines of the configuration. `stand_in`: the program of
    agents of the type Claude.
    """

    def __init__(
        self,
        stored: int = 0,
        daemon: str = "sm.daemon",
        config: str = "",
        stand_in: str | None = None,
        history: int = 0,
    ) -> None:
        self.home = self.work = Path(tempfile.mkdtemp(prefix="sm-bench-"))
        self.state = self.home / "state"
        self.socket = str(self.state / "run/sm.sock")
        program = self.home / "stand-in"
        program.write_text(stand_in or _STAND_IN.replace("CONVERSATION", CONVERSATION))
        program.chmod(0o700)
        (self.home / "config.yaml").write_text(_CONFIG % program + config)
        self.state.mkdir(mode=0o700)
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{Path(SM).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SM_HOME": str(self.home),
            "TMUX_TMPDIR": str(self.home),
        }
        self._children: list[subprocess.Popen[bytes]] = []
        self._stored = stored
        self._history = history
        self._daemon_module = daemon

    def __enter__(self) -> Self:
        try:
            # Ignores the user's tmux.conf. Started before the daemon, so that both sides find the same server.
            self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "floor", "sleep", "1000000")
            if self._stored or self._history:
                asyncio.run(self._store())
            self.start_daemon()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """Return when all started processes are gone: servers, the tmux server, and with it every agent."""
        for child in self._children:
            self.kill(child)
        with contextlib.suppress(subprocess.CalledProcessError):
            pids = self.tmux("list-panes", "-a", "-F", "#{pid} #{pane_pid}").split()
            for pid in {*map(int, pids)} - {0}:  # 0 is the empty pane of the spare session
                with contextlib.suppress(ProcessLookupError):
                    pidfd = os.pidfd_open(pid)
                    # Not kill-server: tmux 3.3a waits forever for a control client whose reader was killed.
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    select.select([pidfd], [], [], _DEADLINE_S)
                    os.close(pidfd)
        remove_cgroups(self.state / "sm.db")
        shutil.rmtree(self.home)

    async def _store(self) -> None:
        newest_s = time.time() - _LATELY_S
        recent = [ended_session(number, str(self.home), newest_s) for number in range(self._stored)]
        old = [
            ended_session(_FIRST_OLD + n, str(self.home), newest_s - _OLD_S - n * _BETWEEN_S)
            for n in range(self._history)
        ]
        async with await Store.open(str(self.home / "state/sm.db")) as store, store.transaction() as tx:
            for session in (*recent, *old):
                await tx.insert(session, Launch(("true",), "/", {}, {}), "a prompt")
            for session in old:
                used = Usage("m1", "claude-opus-4-6", session.created_at, 10, 500, 20_000, 3_000)
                tx.usage.add(session.id, [used])

    # The daemon

    def _until_answer(self, argv: Sequence[str], socket_path: str) -> subprocess.Popen[bytes]:
        """Start a server that reports when it is ready, and send it one request."""
        child = subprocess.Popen(
            argv, env=self.env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self._children.append(child)
        assert child.stdout is not None
        with child.stdout:
            line = child.stdout.readline()
        if b"ready" not in line:
            raise RuntimeError(f"{argv[:3]} did not start")
        connection = Connection(socket_path)
        connection.raw("GET", "/v1/health")
        connection.close()
        return child

    def start_daemon(self) -> None:
        """Start the daemon, and return after its first answer."""
        self.daemon = self._until_answer(
            (sys.executable, "-m", self._daemon_module, "--ready-fd", "1"), self.socket
        )

    def start_bare(self) -> subprocess.Popen[bytes]:
        """Start an empty server, the floor of a daemon, and return after its first answer."""
        path = str(self.home / f"bare{len(self._children)}")
        return self._until_answer((sys.executable, "-c", _BARE, path), path)

    def kill(self, child: subprocess.Popen[bytes]) -> None:
        """Send SIGKILL, and wait for the end of the process."""
        child.kill()
        child.wait()

    @property
    def client(self) -> Client:
        return Client(self.socket)

    # Sessions

    def spawn_request(self, agent_type: str = "Sleep", prompt: str | None = None) -> dict[str, object]:
        return {"agent_type": agent_type, "prompt": prompt, "cwd": str(self.home), "environment": self.env}

    def spawn(self, agent_type: str = "Sleep", prompt: str | None = None) -> dict[str, Any]:
        session: dict[str, Any] = self.client.post("/v1/sessions", self.spawn_request(agent_type, prompt))
        return session

    def as_session(self, session_id: str) -> dict[str, str]:
        """The environment of a process that acts as the session."""
        token = self.state / "launch" / f"{session_id}.token"
        return {**self.env, "SM_SESSION_ID": session_id, "SM_TOKEN_FILE": str(token)}

    def spawn_many(
        self, count: int, agent_type: str = "Sleep", prompts: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Start `count` agents, eight at a time."""
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(self.spawn, [agent_type] * count, prompts or [None] * count))

    # Commands

    def run(self, *argv: str) -> None:
        """Run a command and discard its output. Raises CalledProcessError."""
        null = subprocess.DEVNULL
        subprocess.run(argv, env=self.env, cwd=self.home, stdin=null, stdout=null, check=True)

    def tmux(self, *arguments: str) -> str:
        """The output of `tmux` on this instance's server. Raises CalledProcessError."""
        argv = ("tmux", "-L", "bench", *arguments)
        done = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, check=True, timeout=_DEADLINE_S
        )
        return done.stdout

    def has_spare(self) -> bool:
        """Return whether the daemon has prepared a tmux session for the next agent: its one pane is empty."""
        spare = ("-f", "#{m:sm-spare-*,#{session_name}}")
        return self.tmux("list-panes", "-a", *spare, "-F", "#{pane_dead}").split() == ["1"]


def ended_session(number: int, working_dir: str, at_s: float = 1_767_225_600.0) -> Session:
    at = iso(at_s)
    return Session(
        id=f"{number:08x}",
        name=f"engineer-{number:08x}",
        friendly_name=f"engineer-task-{number}",
        agent_type="Engineer",
        provider="command",
        status=Status.COMPLETED,
        status_source="report",
        status_reason="reported with sm complete",
        status_at=at,
        mode=Mode.AUTO,
        created_by="operator",
        working_dir=working_dir,
        trust_level=TrustLevel.DIRECT,
        effective_mode=TrustLevel.DIRECT,
        terminal=f"command-{number:08x}",
        created_at=at,
        seen_at=at,
        exit=Exit(code=0),
        started_at=at,
        completed_at=at,
        completion_status="completed",
        completion_message=f"Task {number} is done, and all of its tests pass",
        note="writing the last test",
    )


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds. Raises RuntimeError after a minute."""
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {_DEADLINE_S:.0f} s: {what}")
        time.sleep(0.01)


@contextlib.contextmanager
def following(argv: Sequence[str], instance: Instance) -> Iterator[int]:
    """Run a command that does not end by itself; yield the descriptor of its output."""
    child = subprocess.Popen(argv, env=instance.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        yield child.stdout.fileno()
    finally:
        child.kill()
        child.communicate()
