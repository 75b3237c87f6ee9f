"""Watch a small team of agents work, then clean up.

Real processes in real terminals: one delegates, one fails, one crashes. All of it happens in a directory, a
daemon and a tmux server of its own, which are gone afterwards, also after Ctrl-C.

\b
Example:
  sm demo
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import click

from sm.cli.commands.daemon import stop
from sm.cli.display.output import now, print_table
from sm.cli.display.sessions import label, session_table, tree
from sm.cli.display.text import Shown, event_line, line
from sm.cli.instance import Instance, start
from sm.cli.outage import follow
from sm.client.http import Client, session_path
from sm.core.statuses import ENDED, Status
from sm.errors import ExternalError, SmError, WaitTimeout
from sm.wire import decode

_BOUND_S = 120
_LAST_WORDS_S = 3.0
_PACE_S = 2.0
_FAST_PACE_S = 0.1
_TASK = "Ship the login page"
_AGENT = "sm.cli.commands.demo_agent"

EXPECTED = {
    "Coordinator": (Status.COMPLETED, None),
    "Builder": (Status.COMPLETED, "Coordinator"),
    "Linter": (Status.COMPLETED, "Builder"),
    "Tester": (Status.ERROR, "Coordinator"),
    "Fetcher": (Status.ERROR, "Coordinator"),
}
"""Agent type: (how it must end, whose child it must be)."""


@click.command(help=__doc__)
@click.option("--fast", is_flag=True, help="Without the pauses in which they pretend to work.")
def command(fast: bool) -> None:
    if "SM_SESSION_ID" in os.environ:
        # The kernel tells the demo's daemon whose child we are by the environment that we were started with.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SM_")}
        os.execve(sys.executable, [sys.executable, "-m", "sm.cli", *sys.argv[1:]], clean)
    with _instance(_FAST_PACE_S if fast else _PACE_S) as instance:
        click.echo(f"Starting a daemon and a tmux server in {instance.places.state}")
        with _held():
            start(instance)
        sessions = _watched(instance.client(start=False))
        _report(sessions)
    click.echo(
        "\nNothing is left of it: no process, no tmux server, no file. Yours begin with: sm spawn --help"
    )
    trouble = unplanned(sessions)
    if trouble:
        raise ExternalError("the demo did not go as planned: " + "; ".join(trouble), "sm doctor")


def _watched(client: Client) -> list[Shown]:
    """Start the coordinator, show what happens, and return every session when it is over."""
    first = client.post(
        "/v1/sessions",
        {"agent_type": "Coordinator", "prompt": _TASK, "cwd": os.getcwd(), "environment": dict(os.environ)},
    )
    argv = client.get(session_path(first["session_id"], "/attach"))["argv"]
    click.echo(f"Look over the coordinator's shoulder from another terminal:\n  {shlex.join(argv)}\n")
    for text in follow(client, {}, 0):
        event = decode(text)
        click.echo(event_line(event, None))
        if event["session_id"] == first["session_id"] and event["type"] in ENDED:
            break
    sessions: list[Shown] = client.get("/v1/sessions")
    return sessions


def _report(sessions: Sequence[Shown]) -> None:
    click.echo()
    print_table(session_table(tree(sessions), now(), "no sessions"))
    click.echo("\nWhat happened:")
    for session in sessions:
        click.echo(f"  {label(session)} {_fate(session)}")


def _fate(session: Shown) -> str:
    if session["status"] == Status.COMPLETED:
        return "did its work"
    if session["status_source"] == "report":
        return f"reported: {line(session['completion_message'])}"
    end = "crashed" if session["status"] == "error" else line(session["status"])
    return f"{end}: {line(session['status_reason'])}"


def unplanned(sessions: Sequence[Shown]) -> list[str]:
    """What is not as EXPECTED, in words."""
    types = {session["session_id"]: session["agent_type"] for session in sessions}
    found = {s["agent_type"]: (s["status"], types.get(s["parent_session_id"])) for s in sessions}
    trouble = [f"there is no {kind}" for kind in EXPECTED if kind not in found]
    for kind, is_ in found.items():
        wanted = EXPECTED.get(kind)
        if is_ != wanted:
            trouble.append(f"{kind} is {is_[0]}, child of {is_[1]}, and not {wanted}")
    crashed = [s["exit_code"] for s in sessions if s["agent_type"] == "Fetcher"]
    if crashed != [1]:
        trouble.append(f"the Fetcher's exit code is {crashed}, and not 1")
    return trouble


@contextmanager
def _instance(pace_s: float) -> Iterator[Instance]:
    """An instance of its own, and its end: every process, the tmux server, every file."""
    # Not below TMPDIR, which may be too long for a socket's path.
    home = tempfile.mkdtemp(prefix="sm-demo-", dir="/tmp")
    name = os.path.basename(home)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SM_")}
    instance = Instance({**environ, "SM_HOME": home})
    with open(instance.places.config, "x", encoding="utf-8") as file:
        json.dump(_config(name, pace_s), file)  # every JSON is YAML
    with _signals():
        try:
            yield instance
        finally:
            for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # impatience must not stop the cleaning
            _remove(instance, name, home, said=isinstance(sys.exception(), SmError))


@contextmanager
def _signals() -> Iterator[None]:
    """Whatever ends the demo, or takes it too long, goes through the cleaning first."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def late(number: int, frame: FrameType | None) -> None:
        raise WaitTimeout(f"the demo has not ended within {_BOUND_S} s")

    handlers = {signal.SIGTERM: ended, signal.SIGHUP: ended, signal.SIGALRM: late}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    signal.alarm(_BOUND_S)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _held() -> Iterator[None]:
    """Put off whatever ends the demo: a daemon that is just starting could not be stopped, and would come later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _config(socket_name: str, pace_s: float) -> dict[str, object]:
    return {
        "default_trust": "direct",
        "tmux": {"socket_name": socket_name},
        "commands": {
            kind: {
                "command": [sys.executable, "-m", _AGENT, kind.lower(), "--pace", str(pace_s)],
                "prompt": "argv",
            }
            for kind in EXPECTED
        },
    }


def _remove(instance: Instance, socket_name: str, home: str, *, said: bool) -> None:
    """`said`: what went wrong is told already, and need not be told again by its consequences."""
    try:
        stop(instance, everything=True)
    except SmError as error:
        if not said:
            click.echo(f"the demo's daemon could not be stopped: {error.message}", err=True)
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["tmux", "-L", socket_name, "kill-server"], capture_output=True, timeout=10, check=False
        )
    directory = f"{os.environ.get('TMUX_TMPDIR') or '/tmp'}/tmux-{os.geteuid()}"  # tmux(1), -L
    with suppress(OSError):
        os.unlink(f"{directory}/{socket_name}")  # tmux leaves it
    _wait_gone(home)
    shutil.rmtree(home, ignore_errors=True)
    if os.path.exists(home):
        click.echo(f"could not remove {home}", err=True)


def _wait_gone(home: str) -> None:
    """Wait for processes that end by themselves: those with which tmux keeps a new pane's last words, for a second."""
    from sm.linux.processes import environments

    deadline = time.monotonic() + _LAST_WORDS_S
    while time.monotonic() < deadline and any(home.encode() in each for each in environments()):
        time.sleep(0.05)
