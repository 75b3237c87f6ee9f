"""Starts the daemon from a command and waits until it is ready."""

import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from sm.client.http import Client
from sm.errors import AlreadyRunning, DaemonUnavailable, NotPermitted, SmError, from_wire
from sm.paths import InstancePaths
from sm.wire import decode

START_S = 30.0
_RETRY_S = 0.25
_ERRORS_MAX_BYTES = 1 << 20
_KEPT_VARIABLES = (
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "SM_HOME", "TMUX_TMPDIR", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
_KEPT_PREFIXES = ("LC_", "XDG_")
# Signals that `nohup`, a background shell or Python ignores would stay ignored after exec, also in agents.
_RESET_SIGNALS = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD,
    signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGXFSZ,
)  # fmt: skip


def launch(paths: InstancePaths, environ: Mapping[str, str], *options: str) -> None:
    """Start a daemon and return when one is ready, perhaps one that another command started first.

    `options`: more options of the daemon (`python -m sm.daemon --help`).

    Raises the daemon's own error (a wrong configuration, a refused database); DaemonUnavailable when it exits without
    an error or is not ready within START_S; NotPermitted in a container.
    """
    if find_spec("sm.daemon") is None:  # the copy of the client in a container has no daemon
        raise NotPermitted(
            "this shell is not a session: in a sandbox, only agents use sm", "run sm on the host"
        )
    deadline = time.monotonic() + START_S
    locked = False
    while True:
        try:
            answer = _start_process(paths, environ, deadline, options)
        except DaemonUnavailable:
            if locked and time.monotonic() > deadline:  # another daemon held the lock all the time
                raise _lock_error() from None
            raise
        if answer.get("ready"):
            return
        error = _error(answer)
        if not isinstance(error, AlreadyRunning):
            raise error
        locked = True
        # The lock belongs to a daemon that is about to listen, or about to exit.
        retry_at = time.monotonic() + _RETRY_S
        while time.monotonic() < retry_at:
            if _answers(paths.socket):
                return
            time.sleep(0.02)
        if time.monotonic() > deadline:
            raise _lock_error()


def _lock_error() -> DaemonUnavailable:
    return DaemonUnavailable("another daemon holds the lock and does not respond", "sm daemon logs")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Select the variables that the daemon may inherit from the command that starts it."""
    from sm.core.programs import engine_programs

    prefixes = (*_KEPT_PREFIXES, *(engine.variable_prefix for engine in engine_programs()))
    return {
        name: value for name, value in environ.items() if name in _KEPT_VARIABLES or name.startswith(prefixes)
    }


def _answers(socket_path: str) -> bool:
    try:
        Client(socket_path).get("/v1/health", timeout_s=2.0)
    except DaemonUnavailable:
        return False
    return True


def _error(answer: Mapping[str, Any]) -> SmError:
    error = answer.get("error")
    if not isinstance(error, dict):
        return DaemonUnavailable("the daemon sent no valid ready message", "sm daemon logs")
    hint = error.get("hint")
    return from_wire(str(error.get("code")), str(error.get("message")), None if hint is None else str(hint))


def _start_process(
    paths: InstancePaths, environ: Mapping[str, str], deadline: float, options: Sequence[str]
) -> dict[str, Any]:
    """Return the daemon's readiness message; empty when the message is malformed."""
    try:
        errors, begin = _open_errors(paths)
    except OSError as error:
        raise DaemonUnavailable(f"the daemon cannot start: {error.filename}: {error.strerror}") from None
    reader, writer = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _become_daemon(writer, errors, environment(environ), options)
        os.close(writer)
        os.waitpid(child, 0)
        line = _line(reader, deadline)
    finally:
        os.close(reader)
        os.close(errors)
    if not line:
        output = _last_errors(paths, begin)
        raise DaemonUnavailable(
            "the daemon exited during its start" + output, "see its output: sm daemon run"
        )
    try:
        answer = decode(line.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _open_errors(paths: InstancePaths) -> tuple[int, int]:
    """Open the file for the daemon's stderr, and return its descriptor and size.

    The daemon uses stderr before its log is open, and when it crashes.
    """
    os.makedirs(os.path.dirname(paths.state), exist_ok=True)
    for directory in (paths.state, paths.log):
        os.makedirs(directory, 0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    errors = os.open(paths.log + "/daemon.err", flags, 0o600)
    size = os.fstat(errors).st_size
    if size > _ERRORS_MAX_BYTES:
        os.ftruncate(errors, 0)
        size = 0
    return errors, size


def _last_errors(paths: InstancePaths, begin: int) -> str:
    with open(paths.log + "/daemon.err", "rb") as errors:
        errors.seek(begin)
        text = errors.read(64 * 1024).decode("utf-8", "replace")
    lines = text.splitlines()[-20:]
    return ":\n" + "\n".join(lines) if lines else ""


def _become_daemon(writer: int, errors: int, environ: Mapping[str, str], options: Sequence[str]) -> None:
    """In the forked child: execute `python -m sm.daemon` in a new kernel session. Never returns."""
    try:
        os.setsid()
        # The second fork prevents a controlling terminal. It also keeps the daemon from becoming a zombie child of a
        # long-running command such as `sm events --follow`.
        if os.fork():
            os._exit(0)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        # Other numbers first: `writer` or `errors` may be 0, 1 or 2 when the caller closed those. The lowest free ones,
        # because the limit of open files may be low.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 4) for fd in (null, null, errors, writer)]
        for number, fd in enumerate(high):
            os.dup2(fd, number)
        # The daemon must not inherit locks of the caller's shell.
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        for number in _RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        argv = [sys.executable, "-m", "sm.daemon", "--ready-fd", "3", *options]
        os.execve(sys.executable, argv, dict(environ))
    except BaseException as error:  # noqa: BLE001  no caller's code may run in this copy of the command
        os.write(2, f"{sys.executable}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _line(reader: int, deadline: float) -> bytes:
    """Read the daemon's readiness message; empty when the daemon exited without one."""
    line = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while not line.endswith(b"\n") and len(line) < _ERRORS_MAX_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise DaemonUnavailable(f"the daemon was not ready within {START_S:.0f} s", "sm daemon logs")
        piece = os.read(reader, 65536)
        if not piece:
            break
        line += piece
    return line
