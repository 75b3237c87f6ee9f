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
from sm.core.lines import JsonObject
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

        call.get(
            session_path(session),
            lambda answer: session_block(answer, now(), _proposal(call, answer)),
            call.seen,
        )


def _proposal(call: Call, session: JsonObject) -> str | None:
    """The request by which a supervised session proposes its completion, and what the session has changed."""
    from sm.core.session_lines import has_process

    if session["mode"] != "supervised" or not has_process(session):
        return None
    requests = call.client.get("/v1/requests", {"session": session["session_id"]})
    for request in (request for request in requests if request["kind"] == "completion"):
        from sm.cli.session_patch import proposed_changes

        changes = proposed_changes(call.client, request)
        return ", ".join(filter(None, (f"{request['request_id']} proposes its completion", changes)))
    return None
