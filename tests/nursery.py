"""Forks real daemons from a process that has imported them: `python -m tests.nursery SOCKET_FD`.

A daemon costs half a second of a core to start, most of it for imports. The nursery imports once and forks a daemon
per request, each in a kernel session of its own. One nursery serves all tests of a worker.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.load import scaled

REPOSITORY = Path(__file__).parents[1]


class ForkedDaemon:
    """A daemon that the nursery has forked."""

    def __init__(self, nursery: "Nursery", pid: int, pidfd: int) -> None:
        self.pid = pid
        self._nursery = nursery
        self._pidfd = pidfd
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the daemon runs."""
        if self._code is None and select.select([self._pidfd], [], [], 0)[0]:
            self._code = self._nursery.exit_code(self.pid)
            os.close(self._pidfd)
        return self._code

    def wait(self, within_s: float | None = None) -> int:
        if self._code is None:
            limit_s = scaled() if within_s is None else within_s
            assert select.select([self._pidfd], [], [], limit_s)[0], f"daemon {self.pid} is not gone"
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        self.wait()


class Nursery:
    """The process that forks daemons."""

    def __init__(self) -> None:
        self._socket, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.nursery", str(its_end.fileno())],
                env={**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"},
                pass_fds=[its_end.fileno()],
                stdin=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def fork(
        self, environment: Mapping[str, str], ready_fd: int, stderr_fd: int, crash_point: str = ""
    ) -> ForkedDaemon:
        """Start a daemon that tells on `ready_fd` when it serves, and dies at `crash_point` (crash_point.py)."""
        request = json.dumps({"environment": dict(environment), "crash_point": crash_point}).encode()
        socket.send_fds(self._socket, [request], [ready_fd, stderr_fd])
        answer, (pidfd,), _, _ = socket.recv_fds(self._socket, 100, 1)
        return ForkedDaemon(self, int(answer), pidfd)

    def exit_code(self, pid: int) -> int:
        """The exit code of a daemon that has ended."""
        self._socket.send(json.dumps({"ended": pid}).encode())
        return int(self._socket.recv(100))

    def end(self) -> None:
        self._socket.close()
        self._process.wait(scaled())


@functools.cache
def nursery() -> Nursery:
    """The nursery of this worker, started for the first test that needs a daemon."""
    made = Nursery()
    atexit.register(made.end)
    return made


def _serve(requests: socket.socket) -> None:
    """In the nursery: answer requests until nobody can send one any more."""
    from sm.daemon.main import main
    from tests.integration.crash_point import crash_at

    codes: dict[int, int] = {}

    def reap(*_: object) -> None:
        """No zombies: a daemon that is gone must look gone."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])

    signal.signal(signal.SIGCHLD, reap)
    while True:
        request, fds, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not request:
            return
        wanted = json.loads(request)
        if "ended" in wanted:
            reap()
            requests.send(str(codes.pop(wanted["ended"])).encode())
            continue
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                if wanted["crash_point"]:
                    crash_at(wanted["crash_point"])
                code = _become_daemon(main, wanted["environment"], *fds)
            finally:
                os._exit(code)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(requests, [str(pid).encode()], [pidfd])
        for fd in (*fds, pidfd):
            os.close(fd)


def _become_daemon(main: object, environment: Mapping[str, str], ready_fd: int, stderr_fd: int) -> int:
    """In the forked child: what the exec of `python -m sm.daemon` would find. Returns the exit code."""
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
    except BaseException:  # noqa: BLE001  nothing above may run in this copy of the nursery
        sys.excepthook(*sys.exc_info())
        return 1


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
