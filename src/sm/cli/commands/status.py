"""Show the whole system, or everything about one session.

\b
Example:
  sm status engineer-login
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.display.overview import overview
from sm.cli.options import optional_session, workspace_option
from sm.client.http import session_path
from sm.errors import UsageError


@click.command(help=__doc__)
@optional_session
@workspace_option
@json_option
def command(session: str | None, workspace: str | None, call: Call) -> None:
    if session is None:
        call.get("/v1/status", overview, {"workspace": workspace})
    elif workspace is not None:
        raise UsageError("--workspace is for the whole system, and an ID names one session")
    else:
        from sm.cli.display.sessions import session_block  # the overview starts faster without

        call.get(session_path(session), lambda answer: session_block(answer, now()))
