"""Hide ended sessions from lists.

Lists show archived sessions only with --archived. sm unarchive reverses this. On a terminal, the command waits 5 s for
a key: u reverses it too.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions, the JSON is an array.

\b
Examples:
  sm archive engineer-login
"""

import select
import sys

import click

from sm.cli.bulk import act_on_each, bulk_command
from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json
from sm.cli.options import archived_sessions, sessions_argument, visible_ended_sessions
from sm.cli.selection import check
from sm.client.http import new_key
from sm.core.lines import JsonObject, plural
from sm.core.session_lines import label
from sm.wire import encode

WITHIN_S = 5.0
unarchive_command = bulk_command(
    """Show archived sessions in lists again.

    If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
    With several sessions, the JSON is an array.

    \b
    Examples:
      sm unarchive engineer-login
    """,
    "unarchive",
    lambda session: f"Unarchived {label(session)}",
    archived_sessions,
)


def on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def wants_undo(within_s: float = WITHIN_S) -> bool:
    """True if the next key within the time is `u`. Any other key ends the wait."""
    import os
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)  # a quick `u` came before this
        ready, _, _ = select.select([descriptor], [], [], within_s)
        return bool(ready) and os.read(descriptor, 1) in (b"u", b"U")
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@click.command(help=__doc__)
@sessions_argument(visible_ended_sessions)
@json_option
def command(sessions: tuple[str, ...], call: Call) -> int:
    archived: list[str] = []
    can_undo = on_terminal() and not call.as_json

    def done(session: JsonObject) -> str:
        archived.append(session["session_id"])
        return f"Archived {label(session)}" + (f" (u within {WITHIN_S:.0f} s: undo)" if can_undo else "")

    code = act_on_each(call, sessions, "archive", done)
    if can_undo and archived and wants_undo():
        undone = act_on_each(call, archived, "unarchive", lambda session: f"Unarchived {label(session)}")
        code = code or undone
    return code


@click.command()
@click.argument("sessions", metavar="[SESSION...]", nargs=-1, shell_complete=visible_ended_sessions)
@click.option("--all", "every", is_flag=True, help="Mark all sessions.")
@json_option
def seen_command(sessions: tuple[str, ...], every: bool, call: Call) -> None:
    """Mark ended sessions as seen.

    Lists show a failed session under "Needs you" and a completed one under "Done, not seen yet" until you have seen it.
    An act on the session marks it too: attach, output, tail, log, status of this session, diff, merge, send, restore,
    archive, kill, an answer to its request. A list never does.

    With --all, the command marks all sessions and prints their number. Only the operator can mark sessions as seen.

    The JSON is an array of the sessions that were not seen before.

    \b
    Examples:
      sm seen engineer-login
      sm seen --all
    """
    check(sessions, "--all", every=every)
    body = {"sessions": None if every else list(sessions)}
    seen = call.client.post("/v1/seen", body, key=new_key())["seen"]
    if call.as_json:
        print_json(encode(seen))
    elif every:
        click.echo(f"Marked {plural(len(seen), 'session')} as seen")
    else:
        for session in seen:
            click.echo(f"Marked {label(session)} as seen")
        if not seen:
            click.echo("nothing to mark: seen before, or not ended", err=True)
