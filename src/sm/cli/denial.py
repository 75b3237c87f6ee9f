"""Denies a completion with comments about the changes, as `sm deny --review` does."""

import click

from sm.cli.call import Call
from sm.cli.comments import agrees_to_send, changes_to_review, comments_of_editor, sent_drafts, sent_fields
from sm.cli.display.output import print_json
from sm.cli.options import REQUEST_NAME
from sm.client.http import Client, session_path
from sm.core.lines import JsonObject, line, plural
from sm.core.request_lines import explanation
from sm.core.session_lines import label
from sm.errors import IllegalState, UsageError
from sm.wire import encode


def deny_with_review(call: Call, reference: str, *, yes: bool) -> None:
    """Let a person comment on the changes, and deny the completion with the comments. `reference`: as for `sm deny`."""
    client = call.client
    request = _open_completion(client, reference)
    name, who = request["request_id"], label(request)
    review: JsonObject = client.get(session_path(request["session_id"], "/review"))
    with changes_to_review(call, client, review) as changes:
        ids = comments_of_editor(client, review, changes, f"sm deny {name} 'WHY'")
        comments = plural(len(ids), "comment")
        if not ids:
            _show_undecided(call, client, review, request, f"No comments: {name} of {who} stays open")
            return
        if not agrees_to_send(
            f"Deny {name} of {who} with {comments}?", ids, f"sm deny {name} --review", yes=yes
        ):
            kept = f"kept {comments} as drafts: sm deny {name} --review"
            _show_undecided(call, client, review, request, f"{name} of {who} stays open; {kept}")
            return
        denied = {"request": name, "shown": request["digest"]}
        sent = sent_drafts(client, review, changes, ids, "/deny", denied)
    if call.as_json:
        after = client.get(f"/v1/requests/{name}")
        print_json(encode(sent_fields(client, review, sent, request=after)))
    else:
        click.echo(f"Denied {name} of {who}: round {sent['number']} with {comments}")


def _open_completion(client: Client, reference: str) -> JsonObject:
    """The open request of kind completion: that id, or that of a session."""
    if REQUEST_NAME.fullmatch(reference):
        request: JsonObject = client.get(f"/v1/requests/{reference}")
    else:
        found = client.get("/v1/requests", {"session": reference})
        completions = [each for each in found if each["kind"] == "completion"]
        if not completions:
            raise IllegalState(
                f"session {line(reference, 80)} has no completion to deny", "list requests: sm requests"
            )
        request = completions[0]
    name = request["request_id"]
    if request["kind"] != "completion":
        raise UsageError(
            f"request {name} is of kind {line(request['kind'])}: only a completion is denied with a review",
            f"sm deny {name} 'WHY'",
        )
    if request["state"] != "open" or request["answer"] is not None:
        raise IllegalState(
            f"request {name} is not open: {explanation(request)}", f"show the outcome: sm requests {name}"
        )
    return request


def _show_undecided(call: Call, client: Client, review: JsonObject, request: JsonObject, words: str) -> None:
    if call.as_json:
        print_json(encode(sent_fields(client, review, None, request=request)))
    else:
        click.echo(words)
