"""Use cases of reviews: keeps drafts of comments, and sends them to the agent in rounds."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sm.capabilities.reviews.model import (
    COMMENT_MAX,
    DRAFTS_MAX,
    LINE_MAX,
    PATH_MAX,
    QUOTE_MAX,
    Comment,
    CommentPlace,
    Round,
    Side,
)
from sm.capabilities.reviews.operations import (
    DENY_COMPLETION,
    DISCARD,
    PUT,
    REPLACE,
    SEND_ROUND,
    SHOW,
    DenialToSend,
    Draft,
    DraftsToDelete,
    DraftsToReplace,
    EditedDraft,
    ReviewedDrafts,
    RoundOf,
)
from sm.capabilities.reviews.rules import denial_text, denial_words, round_text, trimmed, with_text
from sm.capabilities.reviews.tables import PART
from sm.core.dataclass import dataclass
from sm.core.labels import label, name_to_type, short_label
from sm.core.models import Caller, Session
from sm.core.requests import Answer
from sm.core.states import MessageMode
from sm.core.text import MESSAGE_MAX, is_folded, validate_text
from sm.errors import IllegalState, InvalidText, LimitReached, NotFound, UsageError
from sm.kernel import OperationCall
from sm.messaging import Messages
from sm.messaging.messages import NO_TTL
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import ANSWER
from sm.requests.completions import answer_completion, open_completion
from sm.sessions.authorizer import Authorizer
from sm.store import Store, Transaction
from sm.wire import decode, encode
from sm.wire_types.reviews import CommentView, DenialView, ReviewView, RoundView, SentRoundView

Reviewed = TypeVar("Reviewed", bound=ReviewedDrafts)
_OBJECT_MAX = 64
"""Digits of the name of an object of git with SHA-256."""


class Reviewing:
    """Use cases of reviews. Each caller has drafts and rounds of its own."""

    def __init__(self, store: Store, authorizer: Authorizer, messages: Messages) -> None:
        self._store = store
        self._authorizer = authorizer
        self._messages = messages

    async def show(self, call: OperationCall) -> ReviewView:
        """List the drafts of the caller, or the comments of a round. Raises NotFound for an unknown round."""
        session = self._authorizer.find(call.caller, call.target, SHOW.audience)
        asked: RoundOf = call.arguments
        return await self._view(call.caller, session, asked.round or 0)

    async def put(self, call: OperationCall) -> CommentView:
        """Keep a draft, in place of the one about the same line, or of the one that was edited.

        Raises IllegalState if that has changed since, InvalidText, UsageError and LimitReached.
        """
        session = self._authorizer.find(call.caller, call.target, PUT.audience)
        given: Draft = call.arguments
        new = _comment(session, call.caller, given)
        async with self._store.transaction() as tx:
            tx.session(session.id)
            drafts = await tx.part(PART).comments(session.id, call.caller.name)
            known = [draft for draft in drafts if draft.subject == new.subject]
            # The same text again is a repeated call.
            if given.replaces is not None and not any(_is_same(draft, new) for draft in known):
                _refuse_changed(session, drafts, known, given.replaces)
                known = [draft for draft in drafts if draft.id == given.replaces]
            (draft,) = _replaced(tx, session, drafts, known, [new])
        return comment_view(draft)

    async def replace(self, call: OperationCall) -> ReviewView:
        """Keep drafts in place of others, all or none. Returns the new ones, in the order of the call.

        Raises IllegalState if one of the others has changed, or if there is another draft about the same line, and as
        `put`.
        """
        session = self._authorizer.find(call.caller, call.target, REPLACE.audience)
        given: DraftsToReplace = call.arguments
        new = [_comment(session, call.caller, draft) for draft in given.drafts]
        async with self._store.transaction(call.caller, call.key) as tx:
            tx.session(session.id)
            drafts = await tx.part(PART).comments(session.id, call.caller.name)
            by_id = {draft.id: draft for draft in drafts}
            if tx.replayed is not None:
                kept = [by_id[int(id)] for id in tx.replayed.split() if int(id) in by_id]
            else:
                shown = set(given.shown)
                left = {draft.subject for draft in drafts if draft.id not in shown}
                if shown - by_id.keys() or any(draft.subject in left for draft in new):
                    raise IllegalState(
                        f"another program has changed your drafts about the changes of {short_label(session)}",
                        Hint(Use(SHOW, name_to_type(session), "--list")),
                    )
                kept = _replaced(tx, session, drafts, [by_id[id] for id in shown], new)
                tx.remember(" ".join(str(draft.id) for draft in kept))
            rounds = await tx.part(PART).rounds(session.id, call.caller.name)
        return _review(session, kept, rounds)

    async def discard(self, call: OperationCall) -> ReviewView:
        """Delete drafts. One that does not exist is no error, so that a repetition does no more."""
        session = self._authorizer.find(call.caller, call.target, DISCARD.audience)
        given: DraftsToDelete = call.arguments
        async with self._store.transaction() as tx:
            drafts = await tx.part(PART).comments(session.id, call.caller.name)
            tx.part(PART).remove([d for d in drafts if given.ids is None or d.id in given.ids])
        return await self._view(call.caller, session, 0)

    async def send(self, call: OperationCall) -> SentRoundView:
        """Send drafts in one message, and keep them as a round.

        Raises IllegalState without a draft, InvalidText for a message that would be too long, and the errors of
        `Messages.enqueue`. The drafts stay then.
        """
        caller, given = call.caller, _checked(call.arguments)
        session = self._authorizer.find(caller, call.target, SEND_ROUND.audience)
        mode = MessageMode(given.mode or MessageMode.AUTO)
        self._messages.check_mode(caller, session, mode)
        async with self._store.transaction(caller, call.key) as tx:
            if tx.replayed is not None:
                sent = await _replayed(tx, session, caller)
            else:
                drafts = _chosen(session, await tx.part(PART).comments(session.id, caller.name), given.ids)
                text = self._message(session, drafts)
                sent = await self._keep_round(tx, caller, session, given, drafts, text, mode, given.ttl_s)
                tx.remember(sent.encoded())
        return SentRoundView(**self._fields_of_sent(caller, session, sent))

    async def deny(self, call: OperationCall) -> DenialView:
        """Deny a completion, and send drafts in the same message: all of it, or nothing.

        Raises NotFound without such a request of the session, UsageError for a request of another kind, IllegalState
        for one that is closed or is not the one that was shown, and as `send`. The drafts stay then.
        """
        caller, given = call.caller, _checked(call.arguments)
        session = self._authorizer.find(caller, call.target, DENY_COMPLETION.audience)
        self._authorizer.find(caller, session.id, ANSWER.audience)
        async with self._store.transaction(caller, call.key) as tx:
            if tx.replayed is not None:
                sent = await _replayed(tx, session, caller)
            else:
                request = await open_completion(tx, tx.session(session.id), given.request, given.shown)
                drafts = await _with_text(tx, session, caller, given)
                number = await _next_number(tx, session, caller)
                answer = Answer(False, (), denial_words(number, len(drafts)))
                await answer_completion(tx, tx.session(session.id), request, answer, caller)
                text = self._message(session, drafts, denial_text(request.name))
                # As every other answer: it never expires.
                sent = await self._keep_round(
                    tx, caller, session, given, drafts, text, MessageMode.AUTO, NO_TTL
                )
                sent = replace(sent, request=request.name)
                tx.remember(sent.encoded())
        return DenialView(**self._fields_of_sent(caller, session, sent), request_id=sent.request)

    async def _keep_round(
        self,
        tx: Transaction,
        caller: Caller,
        session: Session,
        given: ReviewedDrafts,
        drafts: Sequence[Comment],
        text: str,
        mode: MessageMode,
        ttl_s: float | None,
    ) -> "_Sent":
        """Queue the message of a round, and make the drafts its comments."""
        sent = await self._messages.enqueue(tx, caller, session.id, text, mode, ttl_s)
        round = Round(
            session.id,
            await _next_number(tx, session, caller),
            caller.name,
            sent.done.id,
            tx.now,
            given.tree or "",
            given.head or "",
            given.base or "",
            len(drafts),
        )
        return _Sent(round, tx.part(PART).keep_round(round, drafts), sent.unarchived)

    def _fields_of_sent(self, caller: Caller, session: Session, sent: "_Sent") -> dict[str, Any]:
        """The fields of the answer. Call it after the commit."""
        if sent.unarchived:
            self._messages.record_unarchived(caller, session)
        return {
            **_fields(sent.round),
            "session_id": session.id,
            "label": label(session),
            "unarchived": sent.unarchived,
            "comments": [comment_view(comment) for comment in sent.comments],
        }

    def _message(self, session: Session, drafts: Sequence[Comment], above: str = "") -> str:
        """The text of a round. Raises InvalidText."""
        text = round_text(drafts, one_line=self._messages.takes_one_line(session), above=above)
        if len(text) > MESSAGE_MAX:
            raise InvalidText(
                f"the round has {len(text):,} characters, a message has at most {MESSAGE_MAX:,}",
                Hint(
                    "shorten or delete comments, or send them in several rounds: ",
                    Use(PUT, name_to_type(session)),
                ),
            )
        return text

    async def _view(self, caller: Caller, session: Session, number: int) -> ReviewView:
        reads = self._store.part(PART)
        rounds = await reads.rounds(session.id, caller.name)
        if number:
            _found(session, rounds, number)
        comments = await reads.comments(session.id, caller.name, number)
        return _review(session, comments, rounds)


def comment_view(comment: Comment) -> CommentView:
    place = comment.place
    return CommentView(
        comment.id,
        comment.number,
        place.path,
        place.side,
        place.first,
        place.last,
        comment.quote,
        comment.text,
    )


def _review(session: Session, comments: Sequence[Comment], rounds: Sequence[Round]) -> ReviewView:
    return ReviewView(
        session.id,
        label(session),
        [comment_view(comment) for comment in comments],
        [RoundView(**_fields(round)) for round in rounds],
    )


def _replaced(
    tx: Transaction,
    session: Session,
    drafts: Sequence[Comment],
    replaced: Collection[Comment],
    new: Sequence[Comment],
) -> list[Comment]:
    """Store new drafts in place of some of the `drafts`. One that is as before keeps its id. Raises LimitReached."""
    if len(new) > len(replaced) and len(drafts) - len(replaced) + len(new) > DRAFTS_MAX:
        raise LimitReached(
            f"you have {len(drafts)} drafts about the changes of {short_label(session)}, the most there can be",
            Hint("send or delete some first: ", Use(SHOW, name_to_type(session), "--list")),
        )
    before = {(draft.place, draft.quote, draft.text): draft for draft in replaced}
    same = [before.pop((draft.place, draft.quote, draft.text), None) for draft in new]
    tx.part(PART).remove(before.values())
    return [known or tx.part(PART).put(draft) for known, draft in zip(same, new, strict=True)]


def _is_same(draft: Comment, new: Comment) -> bool:
    return (draft.place, draft.quote, draft.text) == (new.place, new.quote, new.text)


def _refuse_changed(
    session: Session, drafts: Sequence[Comment], known: Sequence[Comment], replaces: int
) -> None:
    """Raise IllegalState unless the draft with this id is there, and no other one of the `known` about its line."""
    if any(draft.id != replaces for draft in known) or (
        replaces and replaces not in (draft.id for draft in drafts)
    ):
        raise IllegalState(
            f"another program has changed this draft about the changes of {short_label(session)}",
            Hint(
                "copy your text, look at the draft as it is now, and edit that: ",
                Use(SHOW, name_to_type(session), "--list"),
            ),
        )


def _fields(round: Round) -> dict[str, Any]:
    names = ("number", "message_id", "sent_at", "tree", "head", "base", "count")
    return {name: getattr(round, name) for name in names}


def _found(session: Session, rounds: Sequence[Round], number: int) -> Round:
    """The round with the number. Raises NotFound."""
    for round in rounds:
        if round.number == number:
            return round
    raise NotFound(
        f"you have no round {number} about the changes of {short_label(session)}",
        Hint(Use(SHOW, name_to_type(session), "--list")),
    )


def _chosen(
    session: Session, drafts: Sequence[Comment], ids: Sequence[int] | None, *, has_text: bool = False
) -> Sequence[Comment]:
    """The drafts to send, in order. `has_text`: there is a further comment.

    Raises IllegalState without any comment, or if one of the drafts is gone.
    """
    if ids is not None:
        wanted = set(ids)
        if gone := wanted - {draft.id for draft in drafts}:
            raise IllegalState(
                f"the draft {min(gone)} about the changes of {short_label(session)} was changed, sent or deleted",
                Hint(Use(SHOW, name_to_type(session), "--list")),
            )
        drafts = [draft for draft in drafts if draft.id in wanted]
    if not (drafts or has_text):
        raise IllegalState(
            f"you have no comments about the changes of {short_label(session)} to send",
            Hint(Use(PUT, name_to_type(session))),
        )
    return drafts


async def _with_text(
    tx: Transaction, session: Session, caller: Caller, given: DenialToSend
) -> Sequence[Comment]:
    """The comments of a denial, in order: the drafts and the further text. Raises as `_chosen` and `_text`."""
    drafts = await tx.part(PART).comments(session.id, caller.name)
    text = (given.text or "").strip()
    chosen = _chosen(session, drafts, given.ids, has_text=bool(text))
    if not text:
        return chosen
    added = Comment(0, session.id, caller.name, 0, 0, CommentPlace(), "", _text(text))
    return [replace(comment, text=_text(comment.text)) for comment in with_text(chosen, added)]


async def _next_number(tx: Transaction, session: Session, caller: Caller) -> int:
    rounds = await tx.part(PART).rounds(session.id, caller.name)
    return 1 + (rounds[0].number if rounds else 0)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A round that was sent, as it is remembered for a repetition of the call."""

    round: Round
    comments: Sequence[Comment]
    unarchived: bool
    request: str = ""
    """The name of the request that was denied with it, or empty."""

    def encoded(self) -> str:
        """The text to remember: the comments are in the database."""
        more = {"request": self.request} if self.request else {}
        return encode({"unarchived": self.unarchived, **more, **_fields(self.round)})


async def _replayed(tx: Transaction, session: Session, caller: Caller) -> _Sent:
    """The remembered round. It may be erased by now, with its comments."""
    stored = decode(tx.replayed or "")
    unarchived, request = stored.pop("unarchived"), stored.pop("request", "")
    round = Round(session_id=session.id, person=caller.name, **stored)
    comments = await tx.part(PART).comments(session.id, caller.name, round.number)
    return _Sent(round, comments, unarchived, request)


def _comment(session: Session, caller: Caller, given: EditedDraft) -> Comment:
    """A new draft. Raises InvalidText and UsageError."""
    quote = validate_text(given.quote or "", "quote", QUOTE_MAX, one_line=True)
    return Comment(0, session.id, caller.name, 0, 0, _place(given), quote, _text(given.text))


def _text(given: str) -> str:
    """The text of a comment, without blank lines around it. Raises InvalidText and UsageError."""
    lines = trimmed(validate_text(given, "comment", COMMENT_MAX).split("\n"))
    if not lines:
        raise UsageError("the comment is empty")
    return "\n".join(lines)


def _place(given: EditedDraft) -> CommentPlace:
    """The place of a draft. Raises InvalidText and UsageError."""
    if given.path is None:
        if given.side is not None or given.first is not None or given.last is not None:
            raise UsageError("a comment about lines needs the path of their file")
        return CommentPlace()
    path = validate_text(given.path, "path", PATH_MAX, one_line=True)
    if not path.strip() or is_folded(path):
        raise InvalidText("path: it is empty, or has characters that are not shown")
    if given.last is None:
        if given.side is not None or given.first is not None:
            raise UsageError("a comment about lines needs the number of the last one")
        return CommentPlace(path)
    first = given.last if given.first is None else given.first
    if given.side not in set(Side) or not 1 <= first <= given.last <= LINE_MAX:
        raise UsageError("a comment about lines needs their side, and a first line before the last one")
    return CommentPlace(path, Side(given.side), first, given.last)


def _checked(given: Reviewed) -> Reviewed:
    """The arguments, with names of objects that are none refused. Raises UsageError."""
    for name in (given.tree, given.head, given.base):
        if name and not (len(name) <= _OBJECT_MAX and set(name) <= set("0123456789abcdef")):
            raise UsageError("tree, head and base are names of objects of git: hexadecimal digits")
    return given
