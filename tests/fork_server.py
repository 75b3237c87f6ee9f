"""Forks real daemons from a process that has imported them: `python -m tests.fork_server SOCKET_FD`.

A daemon costs half a second of a core to start, most of it for imports. The fork server imports once and forks one
daemon per request, each in a kernel session of its own. It also imports and builds what a daemon would load later, for
its first agent or its first request. One fork server serves all tests of a worker.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sm.api.auth import Containment
from tests import recorder
from tests.waits import waiting

REPOSITORY = Path(__file__).parents[1]
_GRACE_MIN_S = 10.0
"""Less than `sm kill` waits."""
_LOADED_LATER = ("sm.monitor.completion", "sm.providers.claude", "sm.providers.command")
"""The modules that a daemon imports when it needs them first: each daemon of a test would."""
_HOST = Containment(lambda pid, workspace: True, lambda workspace: None)


class ForkedDaemon:
    """A daemon that the fork server forked."""

    def __init__(self, server: "ForkServer", pid: int, pidfd: int) -> None:
        self.pid = pid
        self._server = server
        self._pidfd = pidfd
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the daemon runs."""
        with self._lock:  # threads of a test poll the same daemon
            if self._code is None and select.select([self._pidfd], [], [], 0)[0]:
                self._code = self._server.exit_code(self.pid)
                os.close(self._pidfd)
            return self._code

    def wait(self) -> int:
        if self._code is None:
            with waiting(f"daemon {self.pid} is gone"):
                select.select([self._pidfd], [], [])
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the daemon is gone."""
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
                env={**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"},
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
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
    ) -> ForkedDaemon:
        """Start a daemon that reports on `ready_fd` when it serves, and crashes at `crash_point` (crash_point.py).

        `contains_host`: agent sockets take every process of this host for one in their container.
        """
        wanted = {
            "environment": dict(environment),
            "crash_point": crash_point,
            "contains_host": contains_host,
            "record_into": os.environ.get(recorder.DIRECTORY),
        }
        request = json.dumps(wanted).encode()
        with self._lock:
            socket.send_fds(self._socket, [request], [ready_fd, stderr_fd])
            answer, (pidfd,), _, _ = socket.recv_fds(self._socket, 100, 1)
        return ForkedDaemon(self, int(answer), pidfd)

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
    gc.freeze()  # a collection in a daemon would copy the pages that it shares with this process
    codes: dict[int, int] = {}

    def reap(*_: object) -> None:
        """Leave no zombies: tests must see that an ended daemon is gone."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])

    signal.signal(signal.SIGCHLD, reap)
    while True:
        request, fds, _, _ = socket.recv_fds(requests, 1 << 20, 2)
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
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _lengthen_grace()
                if request_data["crash_point"]:
                    crash_at(request_data["crash_point"])
                if request_data["record_into"]:
                    recorder.record_into(request_data["record_into"])
                run = functools.partial(main, containment=_HOST) if request_data["contains_host"] else main
                code = _become_daemon(run, request_data["environment"], *fds)
            finally:
                os._exit(code)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(requests, [str(pid).encode()], [pidfd])
        for fd in (*fds, pidfd):
            os.close(fd)


def _build_models(model: type[BaseModel]) -> None:
    """Build the validators of the bodies below `model`, which pydantic defers until the first request of a route."""
    for below in model.__subclasses__():
        below.model_rebuild()
        _build_models(below)


def _lengthen_grace() -> None:
    """Let a busy machine end agents in their own way, as an idle one does: lengthen the time before SIGKILL."""
    from sm.linux import processes

    end_tree = processes.end_tree

    async def end_tree_later(process: Any, grace_s: float, **options: Any) -> Any:
        return await end_tree(process, max(grace_s, _GRACE_MIN_S), **options)

    processes.end_tree = end_tree_later


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


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
