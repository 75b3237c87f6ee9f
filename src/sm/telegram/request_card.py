"""The card of a request: its text as HTML, and its buttons. Pure.

A person decides by the card what an agent may do, so it quotes the whole arguments. What is too long for a message
comes as a file, and the card shows its beginning, its end, its length and its digest.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from sm.core.labels import label, name_to_type
from sm.core.models import Session
from sm.core.quotation import argument_lines, question_lines, quotation
from sm.core.requests import Request
from sm.core.states import RequestKind, TrustLevel
from sm.core.text import folded
from sm.telegram.text import cut_utf16, utf16_length

QUOTED_MAX = 3500
"""UTF-16 code units of the quoted words in one card."""
LABEL_MAX = 64
"""Characters of a button."""
OPTIONS_SHOWN = 8
"""Buttons of a question with more options. The card lists all of them."""
_HEAD_MAX = 2200
_TAIL_MAX = 1000
_DIGEST_DIGITS = 12
_VERBS = {
    RequestKind.PERMISSION: "asks for permission to use",
    RequestKind.QUESTION: "asks",
    RequestKind.COMPLETION: "proposes its completion",
    RequestKind.SETUP: "waits in a first-start dialog",
}


@dataclass(frozen=True, slots=True)
class CardButton:
    label: str
    choice: str
    """`approve`, `deny`, or `option N`, from 1."""


@dataclass(frozen=True, slots=True)
class CardFile:
    """A file that is sent before the card."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class RequestCard:
    text: str
    """HTML for one message."""
    buttons: tuple[tuple[CardButton, ...], ...]
    """Rows; empty when the request is over, or can be answered only in the agent's own dialog."""
    file: CardFile | None


def request_card(session: Session, request: Request) -> RequestCard:
    """The card of an open request."""
    quoted, file = _fitted(request, "\n".join(_quoted_lines(request)))
    parts = [_head(session, request), quoted]
    if request.cut:
        parts.append(f"Shortened. The whole dialog: <code>sm attach {escape(name_to_type(session))}</code>")
    elif request.kind is RequestKind.QUESTION:
        parts.append(_how_to_answer(request))
    return RequestCard("\n".join(filter(None, parts)), _buttons(request), file)


def _how_to_answer(request: Request) -> str:
    if len(request.questions) > 1:
        return (
            f"Answer at a terminal: <code>sm answer {request.name}{' TEXT' * len(request.questions)}</code>"
        )
    if request.questions[0].multiple:
        return "Reply to this message with the numbers of your options, such as 1,2."
    press = "Press a button, or reply" if request.questions[0].options else "Reply"
    return f"{press} to this message with your answer."


def finished_card(
    session: Session, request: Request, outcome: str, *, plan: str | None = None
) -> RequestCard:
    """The card of a request that is over. `outcome`: what became of it, such as `approved by @ann 15:12`."""
    quoted, _ = _fitted(request, "\n".join(_quoted_lines(request)))
    parts = (_head(session, request), quoted, f"<b>{escape(folded(outcome))}</b>")
    return RequestCard("\n".join(filter(None, parts)), (), None)


def _head(session: Session, request: Request) -> str:
    verb = _VERBS[request.kind]
    if request.kind is RequestKind.PERMISSION:
        verb += f" {escape(folded(request.tool or 'a tool', 100))}"
    agent = f" (sub-agent {escape(folded(request.agent, 60))})" if request.agent else ""
    untrusted = " (untrusted)" if session.effective_mode is TrustLevel.SANDBOXED else ""
    return f"<b>{request.name}</b>: {escape(label(session))} ({session.id}){agent} {verb}{untrusted}"


def _quoted_lines(request: Request) -> Iterator[str]:
    if request.kind is RequestKind.PERMISSION:
        yield from argument_lines(request.arguments or {}, 1, None)
        return
    for number, question in enumerate(request.questions):
        if len(request.questions) > 1:
            yield f"Question {number + 1}:"
        if request.kind is RequestKind.QUESTION:
            yield from question_lines(question.question, question.options, request.arguments, number, None)
        else:
            yield from quotation(question.question, 1, None)


def _fitted(request: Request, text: str) -> tuple[str, CardFile | None]:
    """The text in `<pre>`, or what fits of it with the file that has all of it."""
    if not text:
        return "", None
    length = utf16_length(text)
    if length <= QUOTED_MAX:
        return f"<pre>{escape(text)}</pre>", None
    file = CardFile(f"{request.name}.txt", text)
    head = cut_utf16(text, _HEAD_MAX)
    tail = cut_utf16(text[::-1], _TAIL_MAX)[::-1]
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_DIGITS]
    left_out = f"… {len(text) - len(head) - len(tail):,} characters left out …"
    note = f"{len(text):,} characters, all of them in {file.name}, SHA-256 {digest}"
    return f"<pre>{escape(head)}</pre>\n{left_out}\n<pre>{escape(tail)}</pre>\n{note}", file


def _buttons(request: Request) -> tuple[tuple[CardButton, ...], ...]:
    if request.kind is not RequestKind.QUESTION:
        refuse = "Reject" if request.kind is RequestKind.COMPLETION else "Deny"
        return ((CardButton("Approve", "approve"), CardButton(refuse, "deny")),)
    if request.cut or len(request.questions) > 1 or request.questions[0].multiple:
        return ()
    options = request.questions[0].options[:OPTIONS_SHOWN]
    return tuple(
        (CardButton(folded(f"{number}: {option}", LABEL_MAX), f"option {number}"),)
        for number, option in enumerate(options, 1)
    )
