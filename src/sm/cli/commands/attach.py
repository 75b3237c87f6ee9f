"""Attach to an agent's terminal.

To detach, press the tmux prefix key, then d (Ctrl-b d by default). The agent keeps running.

\b
Examples:
  sm attach engineer-login
"""

import os
import shlex
import sys

import click

from sm.cli.instance import Instance
from sm.cli.options import session_argument
from sm.client.http import Client, session_path
from sm.errors import ExternalError, UsageError


@click.command(help=__doc__)
@session_argument
def command(session: str) -> None:
    attach(Instance(os.environ).client(), session)


def attach(client: Client, session: str) -> None:
    """Replace this process by a tmux client of the session. Raises UsageError without a terminal."""
    argv = [str(part) for part in client.get(session_path(session, "/attach"))["argv"]]
    command_line = shlex.join(argv)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("sm attach needs a terminal", f"run in a terminal: {command_line}")
    tmux = os.environ.get("TMUX")
    if tmux:
        if not _is_same_server(tmux, argv):
            raise UsageError(
                "cannot attach from inside a different tmux server",
                f"detach first, or nest the terminals: env -u TMUX {command_line}",
            )
        argv = ["switch-client" if part == "attach-session" else part for part in argv]
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise ExternalError(f"cannot run {argv[0]}: {error.strerror}", "sm doctor") from None


def _is_same_server(tmux: str, argv: list[str]) -> bool:
    """Compare the server in TMUX (SOCKET,PID,SESSION; tmux(1), ENVIRONMENT) with the -L or -S of `argv`."""
    if "-S" in argv:
        path = argv[argv.index("-S") + 1]
    else:
        name = argv[argv.index("-L") + 1] if "-L" in argv else "default"
        path = f"{os.environ.get('TMUX_TMPDIR') or '/tmp'}/tmux-{os.geteuid()}/{name}"
    try:
        return os.path.samefile(tmux.rsplit(",", 2)[0], path)
    except OSError:
        return False
