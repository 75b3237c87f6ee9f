"""Answers requests, for `sm approve`, `reject`, `deny` and `answer`."""

from collections.abc import Mapping

import click

from sm.cli.call import Call, json_option
from sm.cli.options import request_argument
from sm.client.http import percent_encode
from sm.core.lines import JsonObject
from sm.core.session_lines import label
from sm.errors import NotFound


def verdict_command(help: str | None, *, approved: bool, done: str) -> click.Command:
    """Build a command that approves or denies a request. `done` begins its output."""

    @click.command(help=help)
    @request_argument
    @click.argument("message", metavar="[MESSAGE]", required=False)
    @json_option
    def command(request: str, message: str | None, call: Call) -> None:
        send_verdict(call, request, {"approved": approved, "message": message}, done)

    return command


def send_verdict(call: Call, reference: str, verdict: Mapping[str, object], done: str) -> None:
    """Answer a request and print the result. `reference` is its id, or a session with exactly one open request."""
    if reference in ("", ".", ".."):
        raise NotFound(f"no such request: {reference!r}", "list requests: sm requests")
    path = f"/v1/requests/{percent_encode(reference)}/answer"
    call.post(path, lambda r: [f"{done} {r['request_id']} of {label(r)}{_open_end(r)}"], verdict)


def _open_end(request: JsonObject) -> str:
    """The effect on an agent in a first-start dialog; the warning after a refusal that the agent has not confirmed."""
    answer = request["answer"]
    if request["kind"] == "setup" and answer is not None:
        return (
            ": its dialog is answered, the agent starts"
            if answer["approved"]
            else ": the agent has been ended"
        )
    if (
        request["state"] != "answered"
        or answer is None
        or answer["approved"]
        or request.get("confirmed", True)
    ):
        return ""
    return f", not confirmed by the agent yet (sm why {request['request_id']})"
