"""Answers a request: builds `sm approve`, `reject` and `deny`, and sends what `sm answer` says."""

import os
from collections.abc import Mapping

import click

from sm.cli.display.text import Shown, json_text
from sm.cli.instance import Instance
from sm.cli.options import json_option, request_argument
from sm.client.http import new_key, quoted
from sm.errors import NotFound
from sm.wire import encode


def verdict_command(text: str, *, approved: bool, done: str) -> click.Command:
    """A command with the help `text` that approves or declines a request and prints that this was `done`."""

    @click.command(help=text)
    @request_argument
    @click.argument("message", required=False)
    @json_option
    def command(request: str, message: str | None, as_json: bool) -> None:
        send_verdict(request, {"approved": approved, "message": message}, done, as_json=as_json)

    return command


def send_verdict(reference: str, verdict: Mapping[str, object], done: str, *, as_json: bool) -> None:
    """Answer a request, named by its id or by the session that has exactly one open, and print the result."""
    if reference in ("", ".", ".."):
        raise NotFound(f"no request {reference!r}", "sm requests")
    request: Shown = (
        Instance(os.environ).client().post(f"/v1/requests/{quoted(reference)}/answer", verdict, key=new_key())
    )
    if as_json:
        click.echo(json_text(encode(request)))
    else:
        click.echo(f"{done} {request['request_id']} of session {request['session_id']}")
