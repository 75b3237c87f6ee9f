"""Forks real daemons and commands from a process that has imported them: `python -m tests.fork_server SOCKET_FD`.

A daemon costs half a second of a core to start, and a command 30 ms, most of it for imports. The fork server imports
once and forks one process per request, daemons in kernel sessions of their own. It also imports and builds what a
daemon would load later, for its first agent or its first request. One fork server serves all tests of a worker.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sm.api.auth import Containment
from tests.waits import waiting

REPOSITORY = Path(__file__).parents[1]
_GRACE_MIN_S = 10.0
"""Less than `sm kill` waits."""
_LOADED_LATER = (
    "sm.capabilities.completion.rules.turn_end",
    "sm.providers.claude.plan",
    "sm.providers.command.provider",
)
"""The modules that a daemon imports when it needs them first: each daemon of a test would."""
_COMMANDS_LOAD = (
    "sm.cli.group",
    "sm.cli.call",
    "sm.client.http",
    "sm.cli.display.output",
    "sm.cli.start_daemon",
)
"""The modules that most commands import when they need them."""
_HOST = Containment(lambda pid, workspace: True, lambda workspace: None)


class ForkedProcess:
    """A daemon or a command that the fork server forked."""

    def __init__(self, server: "ForkServer", pid: int, pidfd: int) -> None:
        self.pid = pid
        self._server = server
        self._pidfd = pidfd
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        with self._lock:  # threads of a test poll the same daemon
            if self._code is None and select.select([self._pidfd], [], [], 0)[0]:
                self._code = self._server.exit_code(self.pid)
                os.close(self._pidfd)
            return self._code

    def has_ended(self, within_s: float) -> bool:
        """Wait for the end, at most for so long."""
        return self._code is not None or bool(select.select([self._pidfd], [], [], within_s)[0])

    def wait(self) -> int:
        if self._code is None:
            with waiting(f"process {self.pid} has ended"):
                select.select([self._pidfd], [], [])
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        self.send_signal(signal.SIGKILL)
        self.wait()


class ForkServer:
    """The process that forks daemons."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(child_end.fileno())],
                env=_environment(),
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def fork(
        self,
        environment: Mapping[str, str],
        ready_fd: int,
        stderr_fd: int,
        crash_point: str = "",
        *,
        contains_host: bool = False,
    ) -> ForkedProcess:
        """Start a daemon that reports on `ready_fd` when it serves, and crashes at `crash_point` (crash_point.py).

        `contains_host`: agent sockets take every process of this host for one in their container.
        """
        wanted = {
            "environment": dict(environment),
            "crash_point": crash_point,
            "contains_host": contains_host,
        }
        return self._fork(wanted, [ready_fd, stderr_fd])

    def _fork(self, wanted: Mapping[str, Any], fds: Sequence[int]) -> ForkedProcess:
        request = json.dumps(wanted).encode()
        with self._lock:
            socket.send_fds(self._socket, [request], fds)
            answer, (pidfd,), _, _ = socket.recv_fds(self._socket, 100, 1)
        return ForkedProcess(self, int(answer), pidfd)

    def run(
        self,
        module: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        stdin: str | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run `python -m MODULE` with a command line, as `subprocess.run` does, in a forked process.

        /proc shows the environment of the fork server for it, so it cannot be a session's. Its input and output are
        files in memory, which need no reader while it runs.
        """
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(os.memfd_create("stream"), "w+b")) for _ in range(3)]
            files[0].write((stdin or "").encode())
            files[0].seek(0)
            wanted = {"module": module, "argv": [*argv], "environment": dict(environment), "cwd": str(cwd)}
            process = self._fork(wanted, [file.fileno() for file in files])
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                raise
            texts = []
            for file in files[1:]:
                file.seek(0)
                texts.append(file.read().decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n"))
        return subprocess.CompletedProcess([*argv], code, *texts)

    @functools.cache  # noqa: B019  one fork server serves all tests of a worker
    def load(self, module: str) -> None:
        """Import a module that only some tests need, so that the daemons that are forked from now on have it."""
        with self._lock:
            self._socket.send(json.dumps({"load": module}).encode())
            self._socket.recv(100)

    def exit_code(self, pid: int) -> int:
        """The exit code of a daemon that ended."""
        with self._lock:
            self._socket.send(json.dumps({"ended": pid}).encode())
            return int(self._socket.recv(100))

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


def _environment() -> dict[str, str]:
    """The environment of the fork server: that of the test, if it were no agent and wrote UTF-8."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("SM_", "LC_"))}
    return {**mine, "LANG": "C.UTF-8", "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"}


@functools.cache
def fork_server() -> ForkServer:
    """The fork server of this worker, started for the first test that needs a daemon."""
    server = ForkServer()
    atexit.register(server.end)
    return server


def _serve(requests: socket.socket) -> None:
    """In the fork server: answer requests until the other end closes the socket."""
    from sm.api.body import Body
    from sm.daemon.main import main
    from tests.integration.crash_point import crash_at

    for name in _LOADED_LATER:
        import_module(name)
    _build_models(Body)
    _read_once()
    _copy_databases()
    gc.freeze()  # a collection in a daemon would copy the pages that it shares with this process
    codes: dict[int, int] = {}

    def reap(*_: object) -> None:
        """Leave no zombies: tests must see that an ended daemon is gone."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])

    signal.signal(signal.SIGCHLD, reap)
    while True:
        request, fds, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not request:
            return
        request_data = json.loads(request)
        if "load" in request_data:
            import_module(request_data["load"])
            gc.freeze()
            requests.send(b"loaded")
            continue
        if "ended" in request_data:
            reap()
            requests.send(str(codes.pop(request_data["ended"])).encode())
            continue
        if "module" in request_data:
            _load_command(request_data["module"], request_data["argv"])
        # A command may end at once: it stays a zombie until there is a pidfd of it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
                if "module" in request_data:
                    code = _become_command(request_data, fds)
                else:
                    _lengthen_grace()
                    if request_data["crash_point"]:
                        crash_at(request_data["crash_point"])
                    run = (
                        functools.partial(main, containment=_HOST) if request_data["contains_host"] else main
                    )
                    code = _become_daemon(run, request_data["environment"], *fds)
            finally:
                os._exit(code)
        pidfd = os.pidfd_open(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        socket.send_fds(requests, [str(pid).encode()], [pidfd])
        for fd in (*fds, pidfd):
            os.close(fd)


def _build_models(model: type[BaseModel]) -> None:
    """Build the validators of the bodies below `model`, which pydantic defers until the first request of a route."""
    for below in model.__subclasses__():
        below.model_rebuild()
        _build_models(below)


def _read_once() -> None:
    """Import and read what each daemon would at its start, half of its work: capabilities, data of claude, routes."""
    from aiohttp import web

    from sm.api.routes import ROUTES
    from sm.core.capability_parts import capability_parts
    from sm.providers.claude.dialect import current

    for part in ("setup", "tables"):
        capability_parts(part)
    current()

    async def never(request: web.Request) -> web.Response:
        raise NotImplementedError

    routes = [route for routes in ROUTES.values() for route in routes]
    # The module re keeps the patterns of the paths.
    web.Application().add_routes([web.RouteDef(route.method, route.path, never, {}) for route in routes])


def _copy_databases() -> None:
    """Let daemons make a new database as a copy, and wait for no disk.

    The migrations of one, and the waits of its commits, take longer than the rest of a forked daemon's start.
    """
    from sm.store import connection
    from tests.sim import template

    template.empty_database()
    connection.inspect = template.inspect_or_copy  # type: ignore[assignment]
    connection.migrate = template.migrate_fast  # type: ignore[attr-defined]


def _lengthen_grace() -> None:
    """Let a busy machine end agents in their own way, as an idle one does: lengthen the time before SIGKILL."""
    from sm.linux import process_endings

    end_tree = process_endings.end_tree

    async def end_tree_later(process: Any, grace_s: float, **options: Any) -> Any:
        return await end_tree(process, max(grace_s, _GRACE_MIN_S), **options)

    process_endings.end_tree = end_tree_later


def _become_daemon(main: object, environment: Mapping[str, str], ready_fd: int, stderr_fd: int) -> int:
    """In the forked child: run the daemon in the state of a new `python -m sm.daemon`. Returns the exit code."""
    assert callable(main)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    null = os.open(os.devnull, os.O_RDWR)
    for place, fd in enumerate((null, null, stderr_fd)):
        os.dup2(fd, place)
    os.close(null)
    os.close(stderr_fd)
    try:
        return int(main(["--ready-fd", str(ready_fd)]))
    except BaseException:  # noqa: BLE001  no caller may run in this copy of the fork server
        sys.excepthook(*sys.exc_info())
        return 1


@functools.cache
def _loaded(module: str) -> None:
    with contextlib.suppress(ModuleNotFoundError):  # not every first argument is the name of a command
        import_module(module)
        gc.freeze()


def _load_command(module: str, argv: Sequence[str]) -> None:
    """Import what a command imports before it does its work, so that the next one has it."""
    for name in (*_COMMANDS_LOAD, module):
        _loaded(name)
    if len(argv) > 1 and argv[1].isidentifier():
        _loaded(f"{module}.commands.{argv[1]}")


def _become_command(wanted: Mapping[str, Any], fds: Sequence[int]) -> int:
    """In the forked child: run a module in the state of a new `python -m`. Returns the exit code."""
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    os.chdir(wanted["cwd"])
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    code: object = 0
    try:
        sys.argv = wanted["argv"]
        runpy.run_module(wanted["module"], run_name="__main__")
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException:  # noqa: BLE001  no caller may run in this copy of the fork server
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code if isinstance(code, int) else 1


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
