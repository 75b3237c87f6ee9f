"""Hide ended sessions from lists.

Lists show archived sessions only with --archived. sm unarchive reverses this. On a terminal, the command waits 5 s for
a key: u reverses it too.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.
With several sessions, the JSON is an array.

\b
Examples:
  sm archive engineer-login
"""

import click

from sm.cli.bulk import act_on_each
from sm.cli.call import Call, json_option
from sm.cli.options import sessions_argument, visible_ended_sessions
from sm.cli.undo import WITHIN_S, on_terminal, wants_undo
from sm.core.lines import JsonObject
from sm.core.session_lines import label


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
