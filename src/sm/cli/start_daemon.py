"""Starts the daemon from a command and reports that it is ready, or why it cannot start."""

import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from sm.client.http import Client
from sm.errors import AlreadyRunning, DaemonUnavailable, SmError, from_wire
from sm.paths import Places
from sm.wire import decode

START_S = 15.0
_AGAIN_S = 0.25
_ERRORS_MAX_BYTES = 1 << 20
_KEPT = (
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "SM_HOME", "TMUX_TMPDIR", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
_KEPT_BEGINNINGS = ("LC_", "XDG_", "DOCKER_")
# What `nohup`, a shell in the background, or Python itself ignores would stay ignored over exec, agents included.
_RESET = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD,
    signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGXFSZ,
)  # fmt: skip


def launch(places: Places, environ: Mapping[str, str]) -> None:
    """Start a daemon and return when one is ready: this one, or one that another command started first.

    Raises the error that the daemon itself names (a wrong configuration, a refused database),
    DaemonUnavailable when it ends without a word or is not ready within START_S.
    """
    deadline = time.monotonic() + START_S
    locked = False
    while True:
        try:
            answer = _launched(places, environ, deadline)
        except DaemonUnavailable:
            if locked and time.monotonic() > deadline:  # so long one has held it, whatever became of this one
                raise _held() from None
            raise
        if answer.get("ready"):
            return
        error = _error(answer)
        if not isinstance(error, AlreadyRunning):
            raise error
        locked = True
        # Somebody holds the lock: a daemon that is about to listen, or one that is about to let go.
        again = time.monotonic() + _AGAIN_S
        while time.monotonic() < again:
            if _answers(places.socket):
                return
            time.sleep(0.02)
        if time.monotonic() > deadline:
            raise _held()


def _held() -> DaemonUnavailable:
    return DaemonUnavailable("another daemon holds the lock and does not answer", "sm daemon logs")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the daemon may know of the environment of whoever happened to start it (design section 9)."""
    return {
        name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
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
        return DaemonUnavailable("the daemon did not say whether it is ready", "sm daemon logs")
    hint = error.get("hint")
    return from_wire(str(error.get("code")), str(error.get("message")), None if hint is None else str(hint))


def _launched(places: Places, environ: Mapping[str, str], deadline: float) -> dict[str, Any]:
    try:
        errors, begin = _errors_file(places)
    except OSError as error:
        raise DaemonUnavailable(f"the daemon cannot start: {error.filename}: {error.strerror}") from None
    reader, writer = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _become_daemon(writer, errors, environment(environ))
        os.close(writer)
        os.waitpid(child, 0)
        line = _line(reader, deadline)
    finally:
        os.close(reader)
        os.close(errors)
    if not line:
        said = _said(places, begin)
        raise DaemonUnavailable("the daemon ended while it was starting" + said, "sm daemon run shows more")
    try:
        answer = decode(line.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _errors_file(places: Places) -> tuple[int, int]:
    """What the daemon writes to stderr before its log is open, or when it dies; and how long it is already."""
    os.makedirs(os.path.dirname(places.state), exist_ok=True)
    for directory in (places.state, places.log):
        os.makedirs(directory, 0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    errors = os.open(places.log + "/daemon.err", flags, 0o600)
    size = os.fstat(errors).st_size
    if size > _ERRORS_MAX_BYTES:
        os.ftruncate(errors, 0)
        size = 0
    return errors, size


def _said(places: Places, begin: int) -> str:
    with open(places.log + "/daemon.err", "rb") as errors:
        errors.seek(begin)
        text = errors.read(64 * 1024).decode("utf-8", "replace")
    lines = text.splitlines()[-20:]
    return ":\n" + "\n".join(lines) if lines else ""


def _become_daemon(writer: int, errors: int, environ: Mapping[str, str]) -> None:
    """In the forked child: become `python -m sm.daemon`, away from this terminal and this command. Never returns."""
    try:
        os.setsid()
        # Forked once more, so that it is no child of a command that lives long (`sm events --follow`) and
        # would leave it a zombie, and so that it can never get a controlling terminal.
        if os.fork():
            os._exit(0)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        # Through high numbers first: `writer` or `errors` may be 0, 1 or 2 when the caller closed those.
        high = [os.dup2(fd, 200 + place) for place, fd in enumerate((null, null, errors, writer))]
        for place, fd in enumerate(high):
            os.dup2(fd, place)
        # A lock that the caller's shell holds must not live on in the daemon.
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(sys.executable, [sys.executable, "-m", "sm.daemon", "--ready-fd", "3"], dict(environ))
    except BaseException as error:  # noqa: BLE001  nothing above may run in this copy of the command
        os.write(2, f"{sys.executable}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _line(reader: int, deadline: float) -> bytes:
    """The one line that the daemon writes; empty when it ended without."""
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
