"""Comment on what an agent changed, in your editor.

Opens the difference of sm diff in your editor (VISUAL, EDITOR). Each of its lines begins with >. Write a comment below
the line that it is about: above all files about the whole change, below the first lines of a file about that file.
"@3 TEXT" is about the 3 lines above it.

Then the command asks, unless you gave --yes, and sends all comments to the agent in one message. It numbers them, with
their file and line, and asks the agent to answer by these numbers. Without a comment, nothing is sent. If you do not
agree, or if there is no terminal to ask you at, the comments stay drafts, and the next sm review has them in their
places. A draft about a line that the difference does not have stays a draft too. If another program has changed a draft
meanwhile, nothing is sent, and your text stays in its file. Files with more than 32 MiB are left out.

With --since-last, the difference begins where your last review ended: the command keeps what you review as an object
in the agent's git repository until sm rm. With --message, TEXT is a comment about the whole change, and no editor
opens; - is stdin. It goes out together with your drafts. Without a terminal, the command does not ask then. A later
--since-last begins where it did before.

git runs as for sm diff, and not at all where a sandboxed agent could ever write. An agent may review those below it.

The JSON has the round that was sent and its message, or null for both, and the drafts that are left. With --list, it
has the drafts and all rounds.

\b
Exit codes:
  0   the comments were sent, or there were none, or you did not agree
  4   the message failed, expired or cannot arrive, or a draft has changed, or
      there was no terminal to ask at
  10  only with --wait: timed out; the message stays queued

\b
Examples:
  sm review engineer-login
  sm review engineer-login --since-last
  sm review engineer-login --message "Please split this change" --yes
"""

from collections.abc import Iterable, Sequence
from typing import Any

import click

from sm.capabilities.reviews.rules import place_text, shown_line
from sm.cli.call import Call, json_option
from sm.cli.comments import (
    ReviewedChanges,
    agrees_to_send,
    changes_to_review,
    comments_of_editor,
    comments_with_text,
    draft_of,
    review_path,
    sent_drafts,
    sent_fields,
)
from sm.cli.delivery import DeliveryOptions, delivery_options, follow_message
from sm.cli.display.output import now, print_json, print_lines
from sm.cli.options import session_argument
from sm.cli.selection import ask, yes_option
from sm.cli.stdin import message_text
from sm.client.http import Client, session_path
from sm.core.lines import JsonObject, age, plural
from sm.core.message_lines import outcome
from sm.core.session_lines import label, name_to_type
from sm.errors import UsageError
from sm.wire import encode


@click.command(help=__doc__)
@session_argument
@click.option("--since-last", is_flag=True, help="Show only what has changed since your last review.")
@click.option("--message", metavar="TEXT", help="Comment on the whole change, without an editor.")
@click.option("--list", "is_list", is_flag=True, help="List your drafts and the rounds that you sent.")
@click.option("--discard", is_flag=True, help="Delete your drafts.")
@yes_option
@delivery_options
@json_option
def command(
    session: str,
    since_last: bool,
    message: str | None,
    is_list: bool,
    discard: bool,
    yes: bool,
    call: Call,
    **options: Any,
) -> int:
    if is_list + discard + since_last + (message is not None) > 1:
        raise UsageError("give only one of --since-last, --message, --list and --discard")
    delivery = DeliveryOptions(**options)
    delivery.body("", None)  # refuses options that exclude each other before a person writes comments
    client = call.instance.client(rate_wait_s=delivery.rate_wait_s)
    review: JsonObject = client.get(session_path(session, "/review"))
    if discard:
        _discard(call, client, review, yes=yes)
        return 0
    if is_list:
        call.show_value(review, _listed)
        return 0
    if message is not None:
        ids = comments_with_text(client, review, message_text(message))
        return _send(call, client, review, None, ids, delivery, yes=yes)
    with changes_to_review(call, client, review, since_last=since_last) as changes:
        ids = comments_of_editor(client, review, changes, f"sm review {name_to_type(review)} --message TEXT")
        return _send(call, client, review, changes, ids, delivery, yes=yes)


def _send(
    call: Call,
    client: Client,
    review: JsonObject,
    changes: ReviewedChanges | None,
    ids: Sequence[int],
    delivery: DeliveryOptions,
    *,
    yes: bool,
) -> int:
    """Ask the person, send the drafts, and show what became of the message. `changes`: those that were shown."""
    comments, again = plural(len(ids), "comment"), f"sm review {name_to_type(review)}"
    question = f"Send {comments} to {label(review)}?"
    if not ids:
        _show_unsent(call, client, review, "No comments: nothing was sent")
        return 0
    if not agrees_to_send(question, ids, again, yes=yes, needs_answer=changes is not None):
        _show_unsent(call, client, review, f"Nothing was sent; kept {comments} as drafts: {again}")
        return 0
    sent_as = delivery.body("", None)
    more = {"mode": sent_as["mode"], "ttl_s": sent_as["ttl_s"]}
    sent = sent_drafts(client, review, changes, ids, "/send", more)
    followed = follow_message(client, sent["message_id"], delivery)
    message = {**followed, "unarchived": sent["unarchived"]}
    if call.as_json:
        print_json(encode(sent_fields(client, review, sent, message=message)))
    shown = outcome(message, must_arrive=delivery.wait is not None)
    if not call.as_json:
        # A sentence of its own begins with a capital letter, which would stand after a colon here.
        click.echo(f"Round {sent['number']} with {comments}: {shown[:1].lower()}{shown[1:]}")
    return 0


def _show_unsent(call: Call, client: Client, review: JsonObject, words: str) -> None:
    if call.as_json:
        print_json(encode(sent_fields(client, review, None, message=None)))
    else:
        click.echo(words)


def _discard(call: Call, client: Client, review: JsonObject, *, yes: bool) -> None:
    drafts = review["comments"]
    if drafts:
        ask(f"Delete {plural(len(drafts), 'draft')} about the changes of {label(review)}?", yes=yes)
        ids = [draft["id"] for draft in drafts]
        review = client.post(review_path(review, "/discard"), {"ids": ids})
    if call.as_json:
        print_json(encode(review))
    else:
        print_lines([f"Deleted {plural(len(drafts), 'draft')}" if drafts else "No drafts"])


def _listed(review: JsonObject) -> Iterable[str]:
    for view in review["comments"]:
        comment = draft_of(view)
        yield f"Draft about {place_text(comment.place)}:"
        if comment.quote:
            yield f"  | {shown_line(comment.quote)}"
        yield from (f"  {shown_line(text)}" for text in comment.text.split("\n"))
    for sent in review["rounds"]:
        comments = plural(sent["count"], "comment")
        yield f"Round {sent['number']}: {comments}, {age(sent['sent_at'], now())}, message {sent['message_id']}"
    if not (review["comments"] or review["rounds"]):
        yield "No drafts and no rounds"
