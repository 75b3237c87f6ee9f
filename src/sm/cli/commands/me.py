"""Show the session that runs this command.

Only agents can run this command. Exits with 3 outside a session.

\b
Examples:
  sm me --json
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.core.session_lines import session_block


@click.command(help=__doc__)
@json_option
def command(call: Call) -> None:
    call.get("/v1/me", lambda session: session_block(session, now()))
