"""Show the state of the system, or of one session.

Without SESSION: the daemon, the number of sessions in each status, open requests, waiting messages and problems.

\b
Examples:
  sm status
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
        call.get("/v1/status", lambda answer: overview(answer, now()), {"workspace": workspace})
    elif workspace is not None:
        raise UsageError("--workspace and SESSION cannot be used together")
    else:
        from sm.core.session_lines import session_block  # the overview starts faster without

        call.get(session_path(session), lambda answer: session_block(answer, now()), call.seen)
