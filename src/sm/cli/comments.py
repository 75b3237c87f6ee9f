"""Lets a person comment on what a session changed, keeps the comments as drafts, and sends these with its state.

`sm review` and `sm deny --review` use it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from sm.capabilities.reviews.editor_file import Written, editor_file
from sm.capabilities.reviews.model import Comment, CommentPlace, Side
from sm.capabilities.reviews.rules import shown_line, trimmed
from sm.cli.call import Call
from sm.cli.display.errors import print_warnings
from sm.cli.editor import edited_text, has_terminal, is_editor_chosen
from sm.cli.selection import agrees
from sm.client.http import Client, session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import has_process, label, name_to_type
from sm.errors import IllegalState, LimitReached, NotFound, NotPermitted, SmError, UsageError

_REFUSALS = (UsageError, NotFound, IllegalState, NotPermitted, LimitReached)
"""Errors after which the daemon has surely not sent a round. After another one, such as a timeout, it may have."""


@dataclass(frozen=True, slots=True)
class ReviewedChanges:
    """The changes to review. `since`: when they began, in words."""

    state: Any
    base: str
    since: str
    diff: str


@contextmanager
def changes_to_review(
    call: Call, client: Client, review: JsonObject, *, since_last: bool = False
) -> Iterator[ReviewedChanges]:
    """Take the present state of the session's work. `since_last`: compare it with the last state that was reviewed.

    Raises IllegalState and NotPermitted where there are no changes to show.
    """
    from sm.capabilities.worktrees.git.submodules import hidden_changes_warning
    from sm.capabilities.worktrees.reviewed_trees import FILE_MAX, is_kept, present_state
    from sm.capabilities.worktrees.work import work_of

    work = work_of(client, review["session_id"], call.seen)
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
        yield ReviewedChanges(state, base, since, state.difference(base))


# Comments


def comments_of_editor(
    client: Client, review: JsonObject, changes: ReviewedChanges, instead: str
) -> list[int]:
    """Let a person comment in an editor, and keep the comments as drafts. Returns their ids.

    `instead`: a command that needs no editor. Raises UsageError if nothing shows an editor to a person.
    """
    if not changes.diff:
        click.echo(f"{label(review)} has changed nothing {changes.since}", err=True)
        return []
    if not (is_editor_chosen() or has_terminal()):
        raise UsageError("there is neither an editor nor a terminal", f"set EDITOR, or: {instead}")
    file = editor_file(label(review), changes.since, changes.diff)
    drafts = [draft_of(draft) for draft in review["comments"]]
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


def comments_with_text(client: Client, review: JsonObject, text: str) -> list[int]:
    """Keep a comment about the whole change as a draft, after the one that there is. Returns the ids of all drafts."""
    drafts = [draft_of(draft) for draft in review["comments"]]
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
    kept = client.post(review_path(review, "/replace"), {"drafts": drafts, "shown": shown})
    return [draft["id"] for draft in kept["comments"]]


def draft_of(view: JsonObject) -> Comment:
    """A draft of the daemon."""
    side = None if view["side"] is None else Side(view["side"])
    place = CommentPlace(view["path"], side, view["first"], view["last"])
    return Comment(view["id"], "", "", 0, view["number"], place, view["quote"], view["text"])


def review_path(review: JsonObject, action: str = "") -> str:
    return session_path(review["session_id"], f"/review{action}")


# Sending


def agrees_to_send(
    question: str, ids: Sequence[int], command: str, *, yes: bool, needs_answer: bool = True
) -> bool:
    """Ask the person at the terminal, unless `yes`. `command`: the one that sends them with --yes.

    Raises IllegalState without a terminal, if `needs_answer`.
    """
    if yes:
        return True
    if has_terminal():
        return agrees(question)
    if needs_answer:
        comments = plural(len(ids), "comment")
        raise IllegalState(
            f"nothing was sent, because there is no terminal to ask you at; kept {comments} as drafts",
            f"to send without a question: {command} --yes",
        )
    return True


def sent_drafts(
    client: Client,
    review: JsonObject,
    changes: ReviewedChanges | None,
    ids: Sequence[int],
    action: str,
    more: Mapping[str, object],
) -> JsonObject:
    """Keep the state that was reviewed, and send the drafts. If that fails, say what became of them.

    `action`: the end of the route; `more`: the other fields of its body.
    """
    body = {"ids": list(ids), **more}
    is_asked = False
    try:
        if changes is not None:
            changes.state.keep()
            body |= {"tree": changes.state.tree, "head": changes.state.head, "base": changes.base}
        is_asked = True
        sent: JsonObject = client.post(review_path(review, action), body)
    except (SmError, OSError, KeyboardInterrupt) as error:
        is_known = not is_asked or isinstance(error, _REFUSALS)
        print_warnings([_unsent(client, review, ids) if is_known else _unknown(review)])
        raise
    return sent


def _unsent(client: Client, review: JsonObject, ids: Sequence[int]) -> str:
    """The words about drafts that were not sent."""
    command, comments = f"sm review {name_to_type(review)}", plural(len(ids), "comment")
    try:
        kept = [draft["id"] for draft in client.get(review_path(review))["comments"] if draft["id"] in ids]
    except SmError:
        return _unknown(review)
    if len(kept) < len(ids):
        return f"nothing was sent; drafts are still {len(kept)} of {comments}: {command}"
    return f"kept {comments} as drafts: {command}"


def _unknown(review: JsonObject) -> str:
    return f"it is not known whether the comments were sent; look: sm review {name_to_type(review)} --list"


def sent_fields(client: Client, review: JsonObject, sent: JsonObject | None, **more: object) -> JsonObject:
    """The JSON about a round, or about one that was not sent, with the drafts that are left. `more`: further fields."""
    left = client.get(review_path(review))["comments"]
    names = {"session_id": review["session_id"], "label": review["label"]}
    return {**names, "round": sent, **more, "drafts": left}
