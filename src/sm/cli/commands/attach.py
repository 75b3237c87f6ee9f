"""Attach to an agent's terminal.

Without SESSION: the only live session, or one that you choose from a list.

To detach, press the tmux prefix key, then d (Ctrl-b d by default). The agent keeps running. Inside tmux, the command
switches your tmux client to the agent, and prints the keys that come back.

\b
Examples:
  sm attach engineer-login
"""

import os
import shlex
import subprocess
import sys

import click

from sm.cli.instance import Instance
from sm.cli.options import running_sessions
from sm.client.http import Client, session_path
from sm.core.pause_states import held_words
from sm.errors import ExternalError, NotFound, SmError, UsageError

_SHOWN_MS = 5_000
_TMUX_S = 5


@click.command(help=__doc__)
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=running_sessions)
def command(session: str | None) -> None:
    client = Instance(os.environ).client()
    attach(client, _chosen(client) if session is None else session)


def _chosen(client: Client) -> str:
    """Return the ID of the only live session, or of the one that a person chooses."""
    from sm.cli.display.listing import listing, ordered
    from sm.cli.display.output import now, width
    from sm.cli.display.text_table import table_lines
    from sm.cli.selection import choose
    from sm.core.columns import cut
    from sm.core.session_lines import has_process

    sessions = [session for session in client.get("/v1/overview") if has_process(session)]
    if not sessions:
        raise NotFound(
            "no live session to attach to", "start an agent: sm spawn, or list ended ones: sm ls -a"
        )
    columns = width()
    _, *rows = table_lines(listing(sessions, now()))
    rows = [cut(row, columns and columns - 5) for row in rows]
    return choose([session for _, _, session in ordered(sessions)], rows, "Attach to")


def attach(client: Client, session: str) -> None:
    """Replace this process by a tmux client of the session. Raises UsageError without a terminal."""
    argv = [str(part) for part in client.get(session_path(session, "/attach"), {"seen": True})["argv"]]
    told = _held(client, session)
    command_line = shlex.join(argv)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("sm attach needs a terminal", f"run in a terminal: {command_line}")
    tmux = os.environ.get("TMUX")
    if tmux:
        if not _is_same_server(tmux, argv):
            outer = _prefix(["tmux", "-S", tmux.rsplit(",", 2)[0]], None)
            inner = _prefix(*_server_and_target(argv))
            keys = f"{inner} {inner} d" if inner == outer else f"{inner} d"
            raise UsageError(
                "cannot attach from inside a different tmux server",
                f"nest the terminals (to come back: {keys}): env -u TMUX {command_line}",
            )
        server, target = _server_and_target(argv)
        back = _way_back(server, target)
        argv = ["switch-client" if part == "attach-session" else part for part in argv]
        told = [*told, back]
    for words in told:
        click.echo(words, err=True)
    if told:  # tmux covers what was printed
        argv += [";", "display-message", "-d", str(_SHOWN_MS), "; ".join(told)]
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise ExternalError(f"cannot run {argv[0]}: {error.strerror}", "sm doctor") from None


def _server_and_target(argv: list[str]) -> tuple[list[str], str | None]:
    """The part of `tmux ... attach-session -t TARGET` that chooses the server, and the target."""
    at = argv.index("attach-session") if "attach-session" in argv else len(argv)
    options = argv[at:]
    return argv[:at], options[options.index("-t") + 1] if "-t" in options else None


def _way_back(server: list[str], target: str | None) -> str:
    """The keys of this server that return to the previous session: the prefix, then the key of `switch-client -l`."""
    for row in _tmux(server, "list-keys", "-T", "prefix").splitlines():
        words = row.split()  # bind-key [-r] -T prefix L switch-client -l
        if words[-2:] == ["switch-client", "-l"] and len(words) >= 5:
            return f"to come back, press {_prefix(server, target)} {words[-3]}"
    return "to come back, run: tmux switch-client -l"


def _prefix(server: list[str], target: str | None) -> str:
    of_session = ["-A", "-t", target] if target else ["-g"]
    return _tmux(server, "show-options", "-v", *of_session, "prefix").strip() or "C-b"


def _tmux(server: list[str], *arguments: str) -> str:
    """The output of tmux; empty if it fails."""
    try:
        return subprocess.run(
            [*server, *arguments], capture_output=True, text=True, timeout=_TMUX_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _held(client: Client, session: str) -> list[str]:
    """Why the terminal of a paused session takes no input."""
    try:
        shown = client.get(session_path(session))
    except SmError:
        return []  # the terminal itself is known
    held = held_words((shown.get("paused") or {}).get("held"))
    return [f"session {shown['session_id']} is paused: {held}"] if held else []


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
