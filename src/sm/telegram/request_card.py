"""The card of a request: its text as HTML, and its buttons. Pure.

A person decides by the card what an agent may do, so it quotes the whole arguments. What is too long for a message
comes as a file, and the card shows its beginning, its end, its length and its digest.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from sm.core.labels import label, name_to_type
from sm.core.models import Session
from sm.core.quotation import argument_lines, question_lines, quotation
from sm.core.requests import Question, Request
from sm.core.states import RequestKind, TrustLevel
from sm.core.text import folded
from sm.telegram.text import cut_utf16, utf16_length

QUOTED_MAX = 3500
"""UTF-16 code units of the quoted words in one card."""
LABEL_MAX = 64
"""Characters of a button."""
OPTIONS_SHOWN = 8
"""Options of a question on one page of buttons."""
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
    """`approve`, `deny`, `deny-with-reason`, `option N` and `page N` (from 0), or `done`."""


@dataclass(frozen=True, slots=True)
class CardFile:
    """A file that is sent before the card."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class CardState:
    """The answers so far on the card of a question, and the options that its buttons show."""

    answers: tuple[str, ...] = ()
    """Of the questions before the one that the buttons show."""
    ticked: frozenset[int] = frozenset()
    """Chosen options of a question that allows several, from 0."""
    page: int = 0


@dataclass(frozen=True, slots=True)
class RequestCard:
    text: str
    """HTML for one message."""
    buttons: tuple[tuple[CardButton, ...], ...]
    """Rows; empty when the request is over, or can be answered only in the agent's own dialog."""
    file: CardFile | None


def request_card(
    session: Session, request: Request, *, plan: str | None = None, state: CardState | None = None
) -> RequestCard:
    """The card of an open request. `plan`: the plan to approve, for a permission to leave plan mode."""
    state = state or CardState()
    quoted, file = _fitted(request, "\n".join(_quoted_lines(request)))
    parts = [_head(session, request, plan), quoted]
    if request.cut:
        parts.append(f"Shortened. The whole dialog: <code>sm attach {escape(name_to_type(session))}</code>")
    buttons = _buttons(request, plan, state)
    if request.kind is RequestKind.QUESTION and not request.cut:
        parts.append(_how_to_answer(len(request.questions), len(state.answers)))
    return RequestCard("\n".join(filter(None, parts)), buttons, file)


def _how_to_answer(questions: int, answered: int) -> str:
    if questions == 1:
        return "Press a button, or reply to this message with your answer."
    return f"Answers question {min(answered + 1, questions)} of {questions}: press a button, or reply to this message."


def finished_card(
    session: Session, request: Request, outcome: str, *, plan: str | None = None
) -> RequestCard:
    """The card of a request that is over. `outcome`: what became of it, such as `approved by @ann 15:12`."""
    quoted, _ = _fitted(request, "\n".join(_quoted_lines(request)))
    parts = (_head(session, request, plan), quoted, f"<b>{escape(folded(outcome))}</b>")
    return RequestCard("\n".join(filter(None, parts)), (), None)


def _head(session: Session, request: Request, plan: str | None) -> str:
    verb = "asks to approve its plan" if plan is not None else _VERBS[request.kind]
    if request.kind is RequestKind.PERMISSION and plan is None:
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


def _buttons(request: Request, plan: str | None, state: CardState) -> tuple[tuple[CardButton, ...], ...]:
    approve, deny = CardButton("Approve", "approve"), CardButton("Deny", "deny")
    match request.kind:
        case RequestKind.QUESTION:
            if request.cut or len(state.answers) >= len(request.questions):
                return ()
            return _question_buttons(request.questions[len(state.answers)], state)
        case RequestKind.PERMISSION if plan is None:
            return (approve, deny), (CardButton("Deny with a reason", "deny-with-reason"),)
        case RequestKind.SETUP:
            return ((approve, deny),)
        case _:
            return (approve, CardButton("Reject", "deny")), (
                CardButton("Reject with a reason", "deny-with-reason"),
            )


def _question_buttons(question: Question, state: CardState) -> tuple[tuple[CardButton, ...], ...]:
    pages = max(1, -(-len(question.options) // OPTIONS_SHOWN))
    page = min(state.page, pages - 1)
    shown = range(page * OPTIONS_SHOWN, min(len(question.options), (page + 1) * OPTIONS_SHOWN))
    rows = [
        (CardButton(_option_label(question, number, state.ticked), f"option {number}"),) for number in shown
    ]
    turns = [CardButton("Earlier options", f"page {page - 1}")] if page else []
    turns += [CardButton("More options", f"page {page + 1}")] if page < pages - 1 else []
    ends = [CardButton("Done", "done")] if question.multiple and state.ticked else []
    return tuple(row for row in (*rows, tuple(turns), tuple(ends)) if row)


def _option_label(question: Question, number: int, ticked: Collection[int]) -> str:
    tick = ("☑ " if number in ticked else "☐ ") if question.multiple else ""
    return folded(f"{tick}{number + 1}: {question.options[number]}", LABEL_MAX)


def pressed_option(question: Question, state: CardState, number: int) -> CardState:
    """The state after a press on an option: ticked, not ticked any more, or the answer of a single choice."""
    if question.multiple:
        return CardState(state.answers, state.ticked ^ {number}, state.page)
    return CardState((*state.answers, str(number + 1)))


def pressed_done(state: CardState) -> CardState:
    """The state after the choice of several options is finished."""
    return CardState((*state.answers, _numbers(sorted(state.ticked))))


def _numbers(options: Sequence[int]) -> str:
    return ",".join(str(number + 1) for number in options)
