"""An instance of sm for one command, with a directory, a daemon and a tmux server of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

import click

from sm.cli.instance import Instance, start
from sm.cli.stop_daemon import stop
from sm.errors import SmError, WaitTimeout

_PANE_EXIT_S = 3.0


@contextmanager
def private_instance(
    purpose: str, timeout_s: int, configure: Callable[[Instance, str], Mapping[str, object]]
) -> Iterator[Instance]:
    """Create an instance, and remove its processes, tmux server and files afterwards, also after a signal.

    `purpose`: one word for the name of the directory and for messages. `configure` gets the instance and the name of
    the tmux server, and returns the document of the configuration; the parent directory of the instance's home is
    its own too. Raises WaitTimeout if the block takes longer than `timeout_s`.
    """
    # Not in TMPDIR, whose path may be too long for a socket.
    directory = tempfile.mkdtemp(prefix=f"sm-{purpose}-", dir="/tmp")
    name = os.path.basename(directory)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SM_")}
    # Not `directory` itself: containers see nothing in the directory of the configuration.
    instance = Instance({**environ, "SM_HOME": f"{directory}/sm"})
    os.mkdir(instance.paths.home)
    with open(instance.paths.config, "x", encoding="utf-8") as file:
        json.dump(configure(instance, name), file)  # every JSON is YAML
    with _signals(purpose, timeout_s):
        try:
            yield instance
        finally:
            for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the clean-up
            # After an error a failure to stop the daemon would only be a consequence.
            _remove(instance, purpose, name, directory, quiet=isinstance(sys.exception(), SmError))


def leave_session() -> None:
    """Start this command anew without the variables of a session, if a session runs it.

    The daemon identifies callers by their initial environment, which only an exec can change.
    """
    if "SM_SESSION_ID" in os.environ:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SM_")}
        os.execve(sys.executable, [sys.executable, "-m", "sm.cli", *sys.argv[1:]], clean)


def start_undisturbed(instance: Instance) -> None:
    """Start the daemon with signals delayed: a clean-up during the start would miss the daemon."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        start(instance)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _signals(purpose: str, timeout_s: int) -> Iterator[None]:
    """Turn signals and the timeout into exceptions, so that the clean-up runs."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def late(number: int, frame: FrameType | None) -> None:
        raise WaitTimeout(f"the {purpose} did not finish within {timeout_s} s")

    handlers = {signal.SIGTERM: ended, signal.SIGHUP: ended, signal.SIGALRM: late}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    signal.alarm(timeout_s)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _remove(instance: Instance, purpose: str, socket_name: str, directory: str, *, quiet: bool) -> None:
    try:
        stop(instance, everything=True)
    except SmError as error:
        if not quiet:
            click.echo(f"the daemon of the {purpose} could not be stopped: {error.message}", err=True)
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["tmux", "-L", socket_name, "kill-server"], capture_output=True, timeout=10, check=False
        )
    sockets = f"{os.environ.get('TMUX_TMPDIR') or '/tmp'}/tmux-{os.geteuid()}"  # tmux(1), -L
    with suppress(OSError):
        os.unlink(f"{sockets}/{socket_name}")  # tmux leaves it
    _wait_gone(directory)
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.exists(directory):
        click.echo(f"could not remove {directory}", err=True)


def _wait_gone(directory: str) -> None:
    """Wait for the processes that tmux runs for about a second to keep the last output of a new pane."""
    from sm.linux.processes import environments

    deadline = time.monotonic() + _PANE_EXIT_S
    while time.monotonic() < deadline and any(directory.encode() in environ for environ in environments()):
        time.sleep(0.05)
