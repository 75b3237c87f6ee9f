"""Mark a session with a star for some hours (stars.hours), for people and agents.

Lists and live views show the star with its reason.

\b
Examples:
  sm star engineer-login --reason review
  sm star --off engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.options import session_argument
from sm.client.http import session_path
from sm.core.lines import line


@click.command(help=__doc__)
@session_argument
@click.option("--reason", metavar="TEXT", help="A few words for lists.")
@click.option("--off", is_flag=True, help="Remove the star.")
@json_option
def command(session: str, reason: str | None, off: bool, call: Call) -> None:
    if off:
        path = session_path(session, "/unstar")
        call.post(path, lambda star: ["Star removed"], {})
        return
    path = session_path(session, "/star")
    call.post(path, lambda star: [f"Starred until {line(star['until'])}"], {"reason": reason})
