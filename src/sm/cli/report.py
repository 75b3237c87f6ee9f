"""Sends a session's own reports, or spools them while no daemon runs."""

import os
from collections.abc import Mapping
from typing import Any

import click

from sm.cli.hook.spool import remove, write
from sm.cli.instance import Instance
from sm.client.http import Client, DaemonAway, new_key
from sm.errors import DaemonUnavailable, NotFound, SmError, UsageError


def send_report(action: str, path: str, body: Mapping[str, object]) -> Any | None:
    """Post a report and return the daemon's answer; None when the report stays in the spool.

    Raises UsageError outside a session, the daemon's refusals, and LimitReached when the spool is full.
    """
    instance = Instance(os.environ)
    try:
        answer = post_or_spool(instance, action, f"/v1/sessions/me/{path}", body, new_key())
    except (NotFound, DaemonUnavailable):
        # The daemon recognises an agent's process even without the variables, so the request had to come first.
        if instance.session_id is not None:
            raise
        raise no_session(
            action,
            f"show an agent's reports: sm {'checkpoints' if action == 'checkpoint' else 'status'} SESSION",
        ) from None
    if answer is None:
        click.echo("recorded; the daemon is not available")
    return answer


def no_session(action: str, hint: str) -> UsageError:
    """The error of a command for agents that a person runs."""
    return UsageError(f"only an agent can run sm {action}, and SM_SESSION_ID is not set", hint)


def post_or_spool(
    instance: Instance, action: str, path: str, body: Mapping[str, object], key: str
) -> Any | None:
    """Post the report. Spools it before any wait, so that it survives a kill of this command.

    Both copies have the same key, so the daemon counts the report once. Returns None when the report stays in the
    spool. Raises DaemonUnavailable outside a session, the daemon's refusals, and the errors of `spool.write`.
    """
    try:
        return Client(instance.socket_path).post(path, body, key=key)
    except DaemonUnavailable as error:
        if instance.session_id is None:
            raise
        spooled = write(instance, action, body, key)
        if not isinstance(error, DaemonAway):
            return None  # a daemon listens but does not answer
    try:
        answer = instance.client().post(path, body, key=key)
    except DaemonUnavailable:
        return None
    except SmError:
        remove(spooled)
        raise
    remove(spooled)
    return answer
