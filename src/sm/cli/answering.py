"""What `sm approve`, `reject`, `deny` and `answer` have in common."""

import os
from collections.abc import Mapping

import click

from sm.cli.display.text import Shown, json_text
from sm.cli.instance import Instance
from sm.client.http import new_key, quoted
from sm.errors import NotFound
from sm.wire import encode


def settle(reference: str, verdict: Mapping[str, object], done: str, *, as_json: bool) -> None:
    """Answer a request, by its name or by the session that has exactly one open, and say so."""
    if reference in ("", ".", ".."):
        raise NotFound(f"no request {reference!r}", "sm requests")
    request: Shown = (
        Instance(os.environ).client().post(f"/v1/requests/{quoted(reference)}/answer", verdict, key=new_key())
    )
    if as_json:
        click.echo(json_text(encode(request)))
    else:
        click.echo(f"{done} {request['request_id']} of session {request['session_id']}")
