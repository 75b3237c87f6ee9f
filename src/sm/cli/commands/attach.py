"""Attach to an agent's terminal.

Without SESSION: the only live session, or one that you choose from a list.

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
from sm.cli.options import optional_session
from sm.client.http import Client, session_path
from sm.errors import ExternalError, NotFound, UsageError


@click.command(help=__doc__)
@optional_session
def command(session: str | None) -> None:
    client = Instance(os.environ).client()
    attach(client, _chosen(client) if session is None else session)


def _chosen(client: Client) -> str:
    """Return the ID of the only live session, or of the one that a person chooses."""
    from sm.cli.display.listing import listing, listing_lines, ordered
    from sm.cli.display.output import now, width
    from sm.cli.display.text import cut
    from sm.cli.selection import choose

    sessions = client.get("/v1/overview")
    if not sessions:
        raise NotFound(
            "no live session to attach to", "start an agent: sm spawn, or list ended ones: sm ls -a"
        )
    columns = width()
    _, *rows = listing_lines(listing(sessions, now()))
    rows = [cut(row, columns and columns - 5) for row in rows]
    return choose([session for _, _, session in ordered(sessions)], rows, "Attach to")


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
