"""What `checkpoint`, `note` and `complete` have in common: a session speaks, and is heard even without a daemon."""

import os
from collections.abc import Mapping
from typing import Any

import click

from sm.cli.hook.spool import report
from sm.cli.instance import Instance
from sm.errors import DaemonUnavailable, NotFound, UsageError


def reported(action: str, path: str, body: Mapping[str, object]) -> Any | None:
    """The daemon's answer to the calling session's report; None when it was recorded for later, and said so.

    Raises UsageError when no session calls.
    """
    instance = Instance(os.environ)
    try:
        answer = report(instance, action, f"/v1/sessions/me/{path}", body)
    except (NotFound, DaemonUnavailable):
        # Without its variables a process may still be an agent's, and the daemon knows; if not, this is why.
        if instance.session_id is not None:
            raise
        raise UsageError(
            f"only an agent can call sm {action}: no session runs here (SM_SESSION_ID is not set)",
            f"see an agent's own words with: sm {'checkpoints' if action == 'checkpoint' else 'status'} ID",
        ) from None
    if answer is None:
        click.echo("recorded; the daemon is away")
    return answer
