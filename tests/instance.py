"""A complete instance of sm for a test: its own home and tmux server, the real command and the real daemon."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson

from sm.cli import start_daemon
from sm.client.http import Client
from sm.core.models import Process
from sm.errors import SmError, WaitTimeout
from sm.linux.processes import is_alive, read_proc
from tests.engine import NO_ENGINE
from tests.fork_server import ForkedProcess, fork_server
from tests.left_cgroups import remove_cgroups
from tests.memory_files import short_place
from tests.private_tmux import private_server
from tests.waits import explained, failure_checks, until, waiting

SM = str(Path(sys.executable).with_name("sm"))
_STARTERS = frozenset(
    ["all", "events", "log", "requests", "restore", "send", "spawn", "status", "wait", "workspace"]
)
"""Commands that start a daemon if none runs."""

CONFIG = """
default_trust: direct
tmux: {{socket_name: {socket}}}
commands:
  Sh: {{command: [sh, -c]}}
  Sleeper: {{command: [sleep, "1000"], prompt: file}}
{more}
"""
SHOWN = "stty -icanon -echo; printf '\\033[6n'; head -c 1 >/dev/null"
"""Shell commands that wait until tmux has read what was printed: it answers the question for the place of the cursor.

tmux 3.3a drops what a program printed immediately before its end if it sees the end first: 2 of 400 times on a loaded
machine.
"""
_FORKED_MAX = 10_000
"""Characters that fit into one request to the fork server, however they are written."""
_PLACEHOLDER = b"sleep\x0060\x00"
"""The command line of the program in a terminal that tmux prepares (terminals/tmux/create.py)."""


class Instance:
    """All files are below `home`. `end` removes everything, and fails if processes were left."""

    starts_processes = True
    until = staticmethod(until)

    def __init__(
        self,
        more: str = "",
        *,
        config: str | None = None,
        forked: bool = True,
        contains_host: bool = False,
        run_as: Sequence[str] = (),
        command: Sequence[str] = (SM,),
        in_memory: bool | None = None,
    ) -> None:
        """`forked`: the fork server starts the daemons in place of a command, also after `kill_daemon`: it is faster.

        `contains_host`: the forked daemons take every process of this host for one in a container (fork_server.py).
        `run_as`: the command, such as setpriv, through which `sm` and tmux run as another user. The caller gives `home`
        to that user. `sm` starts the daemon then. `command`: the `sm` that this user can run. `in_memory`: the files
        may be in memory (memory_files.py), from which no container may mount anything. By default that depends on the
        section `sandbox` of the configuration.
        """
        if in_memory is None:
            in_memory = "sandbox" not in (more if config is None else config)
        self.home = Path(tempfile.mkdtemp(prefix="sm-", dir=short_place() if in_memory else "/tmp"))
        self.tmux_dir = self.home / "tmux"
        self.tmux_dir.mkdir(mode=0o700)
        self.work = self.home / "work"
        self.work.mkdir()
        self.socket_name = "test"
        self.config = self.home / "config.yaml"
        self.config.write_text(config or CONFIG.format(socket=self.socket_name, more=more))
        self.state = self.home / "state"
        self.socket = self.state / "run" / "sm.sock"
        self.env: dict[str, str] = {
            "HOME": str(self.home),
            "PATH": f"{Path(SM).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SM_HOME": str(self.home),
            "TMUX_TMPDIR": str(self.tmux_dir),
            "DOCKER_HOST": NO_ENGINE,
        }
        self.command = (*run_as, *command)
        self.tmux_server = private_server(self.socket_name, self.tmux_dir, self.env, run_as)
        self._daemons: list[subprocess.Popen[bytes] | ForkedProcess] = []
        self._runs_as_test = not run_as
        self._forked = forked and not run_as
        self._has_no_daemon = True
        """Until something starts a daemon."""
        self._contains_host = contains_host
        failure_checks.append(self._crash)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    # The command

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real `sm`."""
        if self._has_no_daemon and (arguments[0] in _STARTERS or arguments[:2] == ("daemon", "start")):
            self._has_no_daemon = False
            if self._forked and (self._daemons or not self.state.exists()):
                self._fork_daemon(start_daemon.environment({**self.env, **(env or {})}))
        if self._forked and not env and _can_be_forked(arguments):
            return fork_server().run("sm.cli", [*self.command, *arguments], self.env, cwd or self.work, stdin)
        return subprocess.run(
            [*self.command, *arguments],
            env={**self.env, **self.with_token(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            cwd=cwd or self.work,
            check=False,
        )

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
        """The started session. On a busy machine a start may last longer than the command waits."""
        ended = self.run("spawn", *arguments, "--json", **options)
        if ended.returncode == WaitTimeout.exit_code and "the start continues" in ended.stderr:
            reference = json.loads(ended.stderr.splitlines()[-1])["error"]["hint"].removeprefix("sm status ")
            return {"warnings": [], **self._started(reference)}
        assert ended.returncode == 0, f"sm spawn {arguments}: {ended}"
        spawned: dict[str, Any] = json.loads(ended.stdout)
        return spawned

    def _started(self, reference: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.session(reference)
            return found if found["pid"] or found["completed_at"] else None

        return until(look, f"session {reference} has a process")

    def get(self, path: str, **query: object) -> Any:
        """The daemon's answer to a read, without starting a command: what a wait looks at."""
        with _owner_of(self.socket):
            return Client(str(self.socket)).get(path, query)

    def output(self, session: str) -> str:
        """The last lines of the terminal of a session."""
        return "\n".join(self.get(f"/v1/sessions/{session}/output")["lines"])

    def session(self, session_id: str) -> dict[str, Any]:
        """The session as in `sm status SESSION --json`, but without starting a command, which is slow."""
        try:
            found: dict[str, Any] = self.get(f"/v1/sessions/{session_id}")
        except SmError:  # the command starts a daemon if none runs, and reports errors better
            found = self.json("status", session_id)
        return found

    def ended(self, session_id: str) -> dict[str, Any]:
        """Wait until the session's process is gone and its final status is known; return the session."""

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            over = found["status"] in ("completed", "error", "abandoned", "killed")
            return found if over and (not found["pid"] or not _exists(found["pid"])) else None

        return until(look, f"session {session_id} has ended")

    def in_status(self, session_id: str, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if found["status"] == status else None

        return until(look, f"session {session_id} is {status}")

    def events(self, session: str = "", *options: str) -> list[dict[str, Any]]:
        """All events (of a session). `options`: none, or `--type` and a type, as of `sm events`."""
        assert options[:-1] in ((), ("--type",)), options
        query = {"session": session, "type": options[-1] if options else None}
        try:
            found: list[dict[str, Any]] = self.get("/v1/events", limit=10000, **query)["events"]
        except SmError:  # as in `session`
            found = self.json("events", "--limit", "10000", *filter(None, [session]), *options)
        return found

    # The daemon

    @property
    def daemon_pid(self) -> int:
        return int(Client(str(self.socket)).get("/v1/health")["pid"])

    def start_daemon(self, crash_point: str = "") -> ForkedProcess:
        """Fork a daemon, and return it when it serves requests."""
        self._has_no_daemon = False
        daemon, line = self._fork_daemon(self.env, crash_point)
        self._check_ready(line)
        return daemon

    def restart_daemon(self) -> None:
        """Stop the daemon, and fork another one."""
        self.sm("daemon", "stop")
        (self.state / "stopped").unlink()
        self.start_daemon()

    def run_daemon(self, *argv: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
        """Start a daemon (or `argv` in its place) as a child of the test, and return it when it serves requests."""
        self._has_no_daemon = False
        read_end, write_end = os.pipe()
        command = list(argv) or [sys.executable, "-m", "sm.daemon"]
        daemon = subprocess.Popen(
            [*command, "--ready-fd", str(write_end)],
            env={**self.env, **(env or {})},
            pass_fds=[write_end],
            cwd="/",
            stdin=subprocess.DEVNULL,
        )
        self._daemons.append(daemon)
        os.close(write_end)
        self._check_ready(_line(read_end))
        return daemon

    def _fork_daemon(
        self, environment: Mapping[str, str], crash_point: str = ""
    ) -> tuple[ForkedProcess, bytes]:
        """The daemon, and the line it writes when it serves requests or cannot run."""
        read_end, write_end = os.pipe()
        daemon = fork_server().fork(environment, write_end, 2, crash_point, contains_host=self._contains_host)
        os.close(write_end)
        line = _line(read_end)
        if orjson.loads(line or b"null") == {"ready": True}:
            self._daemons.append(daemon)
        else:
            daemon.wait()
        return daemon, line

    def _check_ready(self, line: bytes) -> None:
        ready = bool(line) and orjson.loads(line) == {"ready": True}
        assert ready, f"the daemon said {line!r}; its log: {self._log()}"

    def _answers(self) -> bool:
        try:
            return bool(self.get("/v1/health"))
        except SmError:
            return False

    def _log(self) -> str:
        """The end of the log."""
        with contextlib.suppress(OSError):
            return (self.state / "log" / "daemon.log").read_text()[-4000:]
        return "there is no log"

    def _crash(self) -> str | None:
        """Describe a daemon that crashed: one that neither stopped nor was killed by a test."""
        for daemon in self._daemons:
            if (code := daemon.poll()) not in (None, 0, -signal.SIGKILL):
                return f"daemon {daemon.pid} ended with exit code {code}; its log: {self._log()}"
        return None

    def kill_daemon(self) -> None:
        """SIGKILL, and wait until it is gone."""
        pid = self.daemon_pid
        process = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        poll = select.poll()
        # The pidfd is readable when the last thread has ended. Until then the daemon holds the lock.
        poll.register(process, select.POLLIN)
        with waiting(f"daemon {pid} is gone"):
            poll.poll()
        os.close(process)
        for daemon in self._daemons:
            if daemon.pid == pid:
                daemon.wait()
        self._has_no_daemon = True

    # tmux

    def tmux(self, *arguments: str, check: bool = True) -> str:
        """The output of one tmux command on the server of this instance."""
        ended = self.tmux_server.cmd(*arguments)
        assert not check or ended.returncode == 0, (arguments, ended.stderr)
        return "".join(f"{line}\n" for line in ended.stdout)

    def end(self) -> None:
        """Stop the daemon, every agent and the tmux server of this instance, and remove its home."""
        failure_checks.remove(self._crash)
        try:
            if self._runs_as_test and self.state.exists() and not self._answers():
                self._fork_daemon(self.env)  # else the command starts one to end the agents
            # Exit code 9: on a busy machine hundreds of agents may not end within the time limit of one kill.
            code = 0
            while self.state.exists() and (code := self.run("daemon", "stop", "--all").returncode) == 9:
                pass
            stopped = code == 0
            for daemon in self._daemons:
                if stopped:
                    daemon.wait()  # it saves its coverage
                daemon.kill()
                daemon.wait()
            # Not kill-server: tmux 3.3a may keep the client of a killed daemon, and would not exit.
            server = self.tmux("display-message", "-p", "#{pid}", check=False).strip()
            if server:
                _kill(int(server))
            # A server that dies while it starts a placeholder cannot hang it up, and that lives for a minute.
            for pid in _of_instance(self.home):
                if _command_line(pid) == _PLACEHOLDER:
                    _kill(pid)
            with explained(
                lambda: f"processes left: {[_command_line(pid) for pid in _of_instance(self.home)]}"
            ):
                until(lambda: not _of_instance(self.home), "all processes of the instance have ended")
        except BaseException:
            for pid in _of_instance(self.home):
                _kill(pid)
            raise
        finally:
            remove_cgroups(self.state / "sm.db")
            shutil.rmtree(self.home, ignore_errors=True)


def _can_be_forked(arguments: Sequence[str]) -> bool:
    """False for the commands that begin without click, as their start is their subject, and for long texts."""
    return arguments[0] not in ("hook", "mcp") and sum(map(len, arguments)) < _FORKED_MAX


@contextlib.contextmanager
def _owner_of(file: Path) -> Iterator[None]:
    """Act as the user to whom a file belongs, if that is another one."""
    mine = os.geteuid()
    try:
        owner = file.stat().st_uid
    except FileNotFoundError:
        owner = mine
    if owner == mine:
        yield
        return
    os.seteuid(owner)
    try:
        yield
    finally:
        os.seteuid(mine)


def _line(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.readline()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # the process is already gone
        os.kill(pid, signal.SIGKILL)


def _command_line(pid: int) -> bytes:
    """The arguments, each terminated by NUL; empty for a process that is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _exists(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2][:1] not in ("Z", "X", "")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _of_instance(home: Path) -> list[int]:
    """Every live process that was started with this instance's home in its environment."""
    mark, mine = os.fsencode(home), str(os.getpid())
    pids = [name for name in os.listdir("/proc") if name.isdigit() and name != mine]
    found = [int(pid) for pid in pids if mark in (read_proc(f"/proc/{pid}/environ") or b"")]
    return [pid for pid in found if _exists(pid)]


__all__ = ["SM", "Instance", "Process", "is_alive", "until"]
