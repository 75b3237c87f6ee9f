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

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from sm.capabilities.reviews.editor_file import Written, editor_file
from sm.capabilities.reviews.model import Comment, CommentPlace, Side
from sm.capabilities.reviews.rules import place_text, shown_line, trimmed
from sm.cli.call import Call, json_option
from sm.cli.delivery import DeliveryOptions, delivery_options, follow_message
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import now, print_json, print_lines
from sm.cli.editor import edited_text, has_terminal, is_editor_chosen
from sm.cli.options import session_argument
from sm.cli.selection import agrees, ask, yes_option
from sm.cli.stdin import message_text
from sm.client.http import Client, session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, age, line, plural
from sm.core.message_lines import outcome
from sm.core.session_lines import has_process, label, name_to_type
from sm.errors import IllegalState, LimitReached, NotFound, NotPermitted, SmError, UsageError
from sm.wire import encode

_REFUSALS = (UsageError, NotFound, IllegalState, NotPermitted, LimitReached)
"""Errors after which the daemon has surely not sent a round. After another one, such as a timeout, it may have."""


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
        ids = _commented(client, review, message_text(message))
        return _send(call, client, review, None, ids, delivery, yes=yes)
    with _changes(call, client, session, review, since_last=since_last) as changes:
        if changes.diff:
            ids = _edited(client, review, changes)
        else:
            click.echo(f"{label(review)} has changed nothing {changes.since}", err=True)
            ids = []
        return _send(call, client, review, changes, ids, delivery, yes=yes)


# The changes


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes to review. `since`: when they began, in words."""

    state: Any
    base: str
    since: str
    diff: str


@contextmanager
def _changes(
    call: Call, client: Client, session: str, review: JsonObject, *, since_last: bool
) -> Iterator[_Changes]:
    from sm.capabilities.worktrees.git.submodules import hidden_changes_warning
    from sm.capabilities.worktrees.reviewed_trees import FILE_MAX, is_kept, present_state
    from sm.capabilities.worktrees.work import work_of

    work = work_of(client, session, call.seen)
    if not has_process(work.session):
        print_warnings([f"{label(review)} has ended: your comments stay drafts until sm restore"])
    if (warning := hidden_changes_warning(work.top)) is not None:
        print_warnings([warning])
    base, since = work.base, "since it began"
    if since_last:
        hint = f"review all changes: sm review {name_to_type(review)}"
        last = next((sent for sent in review["rounds"] if sent["tree"]), None)
        if last is None:
            raise IllegalState(f"you have not reviewed {label(review)} yet", hint)
        base, since = str(last["tree"]), f"since your review in round {last['number']}"
        if not is_kept(work, base):
            raise IllegalState(f"the repository has lost what you reviewed in round {last['number']}", hint)
    with present_state(work) as state:
        if large := state.left_out:
            files = f"{plural(len(large), 'file')} with more than {FILE_MAX >> 20} MiB"
            print_warnings([f"left out {files}: {', '.join(shown_line(path) for path in large[:5])}"])
        yield _Changes(state, base, since, state.difference(base))


# Comments


def _edited(client: Client, review: JsonObject, changes: _Changes) -> list[int]:
    """Let a person comment in an editor, and keep the comments as drafts. Returns their ids."""
    if not (is_editor_chosen() or has_terminal()):
        raise UsageError(
            "there is neither an editor nor a terminal",
            f"set EDITOR, or: sm review {name_to_type(review)} --message TEXT",
        )
    file = editor_file(label(review), changes.since, changes.diff)
    drafts = [_comment(draft) for draft in review["comments"]]
    placed, left = file.placed(drafts)
    with edited_text(file.write(placed), "REVIEW.md", "nothing was sent") as text:
        read = file.read(text)
        ids = _replaced(client, review, [draft.id for draft in placed.values()], read.comments)
    reference = name_to_type(review)
    if read.changed:
        count = plural(len(read.changed), "changed line")
        print_warnings([f"ignored {count} with >, which is no comment: {line(read.changed[0], 80)}"])
    if left:
        kept = plural(len(left), "draft")
        print_warnings([f"kept {kept} without a place in these changes: sm review {reference} --list"])
    return ids


def _commented(client: Client, review: JsonObject, text: str) -> list[int]:
    """Keep a comment about the whole change as a draft, after the one that there is. Returns the ids of all drafts."""
    drafts = [_comment(draft) for draft in review["comments"]]
    earlier = [draft for draft in drafts if draft.place == CommentPlace()]
    text = "\n".join(trimmed(text.replace("\r\n", "\n").split("\n")))
    if any(f"\n\n{draft.text}".endswith(f"\n\n{text}") for draft in earlier):
        return [draft.id for draft in drafts]  # the same command again, because the first one was refused
    joined = Written(CommentPlace(), "", "\n\n".join([*(draft.text for draft in earlier), text]))
    new = _replaced(client, review, [draft.id for draft in earlier], [joined])
    return [*new, *(draft.id for draft in drafts if draft not in earlier)]


def _replaced(
    client: Client, review: JsonObject, shown: Sequence[int], comments: Sequence[Written]
) -> list[int]:
    """Keep comments as drafts, in place of those that were shown, all or none. Returns the ids of the new ones."""
    if not (shown or comments):
        return []
    drafts = [
        {
            "path": written.place.path,
            "side": written.place.side,
            "first": written.place.first,
            "last": written.place.last,
            "quote": written.quote,
            "text": written.text,
        }
        for written in comments
    ]
    kept = client.post(_path(review, "/replace"), {"drafts": drafts, "shown": shown})
    return [draft["id"] for draft in kept["comments"]]


def _comment(view: JsonObject) -> Comment:
    side = None if view["side"] is None else Side(view["side"])
    place = CommentPlace(view["path"], side, view["first"], view["last"])
    return Comment(view["id"], "", "", 0, view["number"], place, view["quote"], view["text"])


def _path(review: JsonObject, action: str) -> str:
    return session_path(review["session_id"], f"/review{action}")


# Sending


def _send(
    call: Call,
    client: Client,
    review: JsonObject,
    changes: _Changes | None,
    ids: Sequence[int],
    delivery: DeliveryOptions,
    *,
    yes: bool,
) -> int:
    """Ask the person, send the drafts, and show what became of the message. `changes`: those that were shown."""
    name, comments = label(review), plural(len(ids), "comment")
    if not ids:
        _show_unsent(call, client, review, "No comments: nothing was sent")
        return 0
    if not yes and has_terminal() and not agrees(f"Send {comments} to {name}?"):
        kept = f"Nothing was sent; kept {comments} as drafts: sm review {name_to_type(review)}"
        _show_unsent(call, client, review, kept)
        return 0
    if not (yes or has_terminal() or changes is None):
        raise IllegalState(
            f"nothing was sent, because there is no terminal to ask you at; kept {comments} as drafts",
            f"to send without a question: sm review {name_to_type(review)} --yes",
        )
    sent = _sent(client, review, changes, ids, delivery)
    followed = follow_message(client, sent["message_id"], delivery)
    message = {**followed, "unarchived": sent["unarchived"]}
    if call.as_json:
        _show_json(client, review, sent, message)
    shown = outcome(message, must_arrive=delivery.wait is not None)
    if not call.as_json:
        # A sentence of its own begins with a capital letter, which would stand after a colon here.
        click.echo(f"Round {sent['number']} with {comments}: {shown[:1].lower()}{shown[1:]}")
    return 0


def _sent(
    client: Client,
    review: JsonObject,
    changes: _Changes | None,
    ids: Sequence[int],
    delivery: DeliveryOptions,
) -> JsonObject:
    """Keep the state that was reviewed, and send the drafts. If that fails, say what became of them."""
    sent_as = delivery.body("", None)
    body = {"ids": list(ids), "mode": sent_as["mode"], "ttl_s": sent_as["ttl_s"]}
    is_asked = False
    try:
        if changes is not None:
            changes.state.keep()
            body |= {"tree": changes.state.tree, "head": changes.state.head, "base": changes.base}
        is_asked = True
        sent: JsonObject = client.post(_path(review, "/send"), body)
    except (SmError, OSError, KeyboardInterrupt) as error:
        is_known = not is_asked or isinstance(error, _REFUSALS)
        print_warnings([_unsent(client, review, ids) if is_known else _unknown(review)])
        raise
    return sent


def _unsent(client: Client, review: JsonObject, ids: Sequence[int]) -> str:
    """The words about drafts that were not sent."""
    command, comments = f"sm review {name_to_type(review)}", plural(len(ids), "comment")
    try:
        kept = [draft["id"] for draft in client.get(_path(review, ""))["comments"] if draft["id"] in ids]
    except SmError:
        return _unknown(review)
    if len(kept) < len(ids):
        return f"nothing was sent; drafts are still {len(kept)} of {comments}: {command}"
    return f"kept {comments} as drafts: {command}"


def _unknown(review: JsonObject) -> str:
    return f"it is not known whether the comments were sent; look: sm review {name_to_type(review)} --list"


def _show_unsent(call: Call, client: Client, review: JsonObject, words: str) -> None:
    if call.as_json:
        _show_json(client, review, None, None)
    else:
        click.echo(words)


def _show_json(
    client: Client, review: JsonObject, sent: JsonObject | None, message: JsonObject | None
) -> None:
    left = client.get(_path(review, ""))["comments"]
    names = {"session_id": review["session_id"], "label": review["label"]}
    print_json(encode({**names, "round": sent, "message": message, "drafts": left}))


def _discard(call: Call, client: Client, review: JsonObject, *, yes: bool) -> None:
    drafts = review["comments"]
    if drafts:
        ask(f"Delete {plural(len(drafts), 'draft')} about the changes of {label(review)}?", yes=yes)
        ids = [draft["id"] for draft in drafts]
        review = client.post(_path(review, "/discard"), {"ids": ids})
    if call.as_json:
        print_json(encode(review))
    else:
        print_lines([f"Deleted {plural(len(drafts), 'draft')}" if drafts else "No drafts"])


def _listed(review: JsonObject) -> Iterable[str]:
    for view in review["comments"]:
        comment = _comment(view)
        yield f"Draft about {place_text(comment.place)}:"
        if comment.quote:
            yield f"  | {shown_line(comment.quote)}"
        yield from (f"  {shown_line(text)}" for text in comment.text.split("\n"))
    for sent in review["rounds"]:
        comments = plural(sent["count"], "comment")
        yield f"Round {sent['number']}: {comments}, {age(sent['sent_at'], now())}, message {sent['message_id']}"
    if not (review["comments"] or review["rounds"]):
        yield "No drafts and no rounds"
