"""Mark ended sessions as seen.

Lists show a failed session under "Needs you" and a completed one under "Done, not seen yet" until you have seen it. An
act on the session marks it too: attach, output, tail, log, status of this session, diff, merge, send, restore, archive,
kill, an answer to its request. A list never does.

With --all, the command marks all sessions and prints their number. Only the operator can mark sessions as seen.

The JSON is an array of the sessions that were not seen before.

\b
Examples:
  sm seen engineer-login
  sm seen --all
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json
from sm.cli.options import visible_ended_sessions
from sm.cli.selection import check
from sm.client.http import new_key
from sm.core.lines import plural
from sm.core.session_lines import label
from sm.wire import encode


@click.command(help=__doc__)
@click.argument("sessions", metavar="[SESSION...]", nargs=-1, shell_complete=visible_ended_sessions)
@click.option("--all", "every", is_flag=True, help="Mark all sessions.")
@json_option
def command(sessions: tuple[str, ...], every: bool, call: Call) -> None:
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
