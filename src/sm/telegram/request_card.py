"""The card of a request: its text as HTML, and its buttons. Pure.

A person decides by the card what an agent may do, so it quotes the whole arguments. What is too long for a message
comes as a file, and the card shows its beginning, its end, its length and its digest.

Several questions come one after the other: the card shows the next one, and the answers so far.
"""

import hashlib
from collections.abc import Iterator
from html import escape

from sm.core.dataclass import dataclass
from sm.core.labels import label, name_to_type
from sm.core.models import Session
from sm.core.quotation import argument_lines, question_lines, quotation
from sm.core.request_words import words_of_kind
from sm.core.requests import Question, Request
from sm.core.states import RequestKind, TrustLevel
from sm.core.telegram_model import CardDraft
from sm.core.telegram_text import cut_utf16, utf16_length
from sm.core.text import folded

QUOTED_MAX = 3500
"""UTF-16 code units of the quoted words in one card."""
LABEL_MAX = 64
"""Characters of a button."""
OPTIONS_SHOWN = 8
"""Options on one page of buttons. The text of the card lists all of them."""
_HEAD_MAX = 2200
_TAIL_MAX = 1000
_DIGEST_DIGITS = 12
_ANSWERS_SHOWN = 3
_ANSWER_MAX = 40
_TICKED, _UNTICKED = "\u2611", "\u2610"
_VERBS = {
    RequestKind.PERMISSION: "asks for permission to use",
    RequestKind.QUESTION: "asks",
    RequestKind.COMPLETION: "proposes its completion",
    RequestKind.SETUP: "waits in a first-start dialog",
    RequestKind.DIALOG: "waits in a dialog",
}
_UNTOUCHED = CardDraft("", 0)


@dataclass(frozen=True, slots=True)
class CardButton:
    label: str
    choice: str
    """A word with its arguments: `approve`, `deny`, `reason`, `option Q N`, `tick Q N on|off`, `done Q`, `page Q P` or
    `again`. Q: the number of the question, from 0; N: that of the option, from 1; P: that of the page, from 0.
    """


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


def request_card(
    session: Session, request: Request, *, plan: str | None = None, draft: CardDraft = _UNTOUCHED
) -> RequestCard:
    """The card of an open request. `plan`: the plan to approve, for a permission to leave plan mode."""
    is_question = request.kind is RequestKind.QUESTION
    if is_question and len(draft.answers) < len(request.questions):
        quoted, file = _quoted_question(request, len(draft.answers))
    else:
        quoted, file = _fitted(request, _quoted(request, plan))
    parts = [_head(session, request, plan), *_answers_so_far(request, draft), quoted]
    if request.cut:
        parts.append(f"Shortened. The whole dialog: <code>sm attach {escape(name_to_type(session))}</code>")
    elif is_question:
        parts.append(_how_to_answer(request.questions[len(draft.answers)]))
    elif draft.reason_from is not None:
        parts.append("Reply to this message with the reason of your denial.")
    return RequestCard("\n".join(filter(None, parts)), _buttons(request, plan, draft), file)


def _how_to_answer(question: Question) -> str:
    if not question.options:
        return "Reply to this message with your answer."
    if question.multiple:
        return "Tick options and press Done, or reply to this message with your answer."
    return "Press a button, or reply to this message with your answer."


def _answers_so_far(request: Request, draft: CardDraft) -> Iterator[str]:
    """The newest answers to earlier questions. One line each, shortened: the person has given them."""
    first = max(0, len(draft.answers) - _ANSWERS_SHOWN)
    for number, answer in enumerate(draft.answers[first:], first):
        yield f"Answer {number + 1}: {escape(folded(words_of(request.questions[number], answer), _ANSWER_MAX))}"


def words_of(question: Question, answer: str) -> str:
    """The options that an answer names by their numbers; any other answer as it is."""
    numbers = [int(word) for word in answer.split(",") if word.isdecimal() and len(word) < 4]
    if len(numbers) != answer.count(",") + 1 or not all(1 <= n <= len(question.options) for n in numbers):
        return answer
    return ", ".join(question.options[number - 1] for number in numbers)


def finished_card(
    session: Session, request: Request, outcome: str, *, plan: str | None = None
) -> RequestCard:
    """The card of a request that is over. `outcome`: what became of it, such as `approved by @ann 15:12`."""
    quoted, _ = _fitted(request, _quoted(request, plan))
    parts = (_head(session, request, plan), quoted, f"<b>{escape(folded(outcome))}</b>")
    return RequestCard("\n".join(filter(None, parts)), (), None)


def _head(session: Session, request: Request, plan: str | None) -> str:
    words = words_of_kind(request.kind)
    verb = _VERBS.get(request.kind, "asks") if words is None else words.verb
    if plan is not None:
        verb = "asks to approve its plan"
    elif request.kind is RequestKind.PERMISSION:
        verb += f" {escape(folded(request.tool or 'a tool', 100))}"
    agent = f" (sub-agent {escape(folded(request.agent, 60))})" if request.agent else ""
    untrusted = " (untrusted)" if session.effective_mode is TrustLevel.SANDBOXED else ""
    return f"<b>{request.name}</b>: {escape(label(session))} ({session.id}){agent} {verb}{untrusted}"


def _quoted(request: Request, plan: str | None) -> str:
    return "\n".join(_quoted_lines(request, plan))


def _quoted_lines(request: Request, plan: str | None) -> Iterator[str]:
    if plan is not None:
        yield from quotation(plan, 1, None)
        return
    if request.kind is RequestKind.PERMISSION:
        yield from argument_lines(request.arguments or {}, 1, None)
        return
    if (words := words_of_kind(request.kind)) is not None:
        yield from words.facts(request.arguments)
        return
    for number in range(len(request.questions)):
        yield from _question_lines(request, number)


def _question_lines(request: Request, number: int) -> Iterator[str]:
    question = request.questions[number]
    if len(request.questions) > 1:
        yield f"Question {number + 1} of {len(request.questions)}:"
    if request.kind is RequestKind.QUESTION:
        yield from question_lines(question.question, question.options, request.arguments, number, None)
    else:
        yield from quotation(question.question, 1, None)


def _quoted_question(request: Request, number: int) -> tuple[str, CardFile | None]:
    """One question in `<pre>`. The file has all of them, if one does not fit: it is sent only before the first."""
    texts = ["\n".join(_question_lines(request, each)) for each in range(len(request.questions))]
    is_long = any(utf16_length(text) > QUOTED_MAX for text in texts)
    file = CardFile(f"{request.name}.txt", "\n".join(texts)) if is_long else None
    if file is None or utf16_length(texts[number]) <= QUOTED_MAX:
        return f"<pre>{escape(texts[number])}</pre>", file
    return _shortened(texts[number], file), file


def _fitted(request: Request, text: str) -> tuple[str, CardFile | None]:
    """The text in `<pre>`, or what fits of it with the file that has all of it."""
    if not text:
        return "", None
    if utf16_length(text) <= QUOTED_MAX:
        return f"<pre>{escape(text)}</pre>", None
    file = CardFile(f"{request.name}.txt", text)
    return _shortened(text, file), file


def _shortened(text: str, file: CardFile) -> str:
    head = cut_utf16(text, _HEAD_MAX)
    tail = cut_utf16(text[::-1], _TAIL_MAX)[::-1]
    digest = hashlib.sha256(file.content.encode("utf-8", "replace")).hexdigest()[:_DIGEST_DIGITS]
    left_out = f"… {len(text) - len(head) - len(tail):,} characters left out …"
    note = f"{len(file.content):,} characters, all of them in {file.name}, SHA-256 {digest}"
    return f"<pre>{escape(head)}</pre>\n{left_out}\n<pre>{escape(tail)}</pre>\n{note}"


# Buttons


def _buttons(request: Request, plan: str | None, draft: CardDraft) -> tuple[tuple[CardButton, ...], ...]:
    if request.kind is RequestKind.QUESTION:
        return () if request.cut else tuple(_question_buttons(request, draft))
    if plan is not None or request.kind is RequestKind.COMPLETION:
        return ((CardButton("Approve", "approve"), CardButton("Reject", "deny")),)
    decide = (CardButton("Approve", "approve"), CardButton("Deny", "deny"))
    if request.kind is not RequestKind.PERMISSION or draft.reason_from is not None:
        return (decide,)
    return (decide, (CardButton("Deny with a reason", "reason"),))


def _question_buttons(request: Request, draft: CardDraft) -> Iterator[tuple[CardButton, ...]]:
    """The options of the next question, one in each row, and the buttons that turn pages and finish."""
    number = len(draft.answers)
    question = request.questions[number]
    pages = max(1, -(-len(question.options) // OPTIONS_SHOWN))
    page = min(draft.page, pages - 1)
    first = page * OPTIONS_SHOWN
    for option, words in enumerate(question.options[first : first + OPTIONS_SHOWN], first + 1):
        text = f"{option}: {words}"
        if question.multiple:
            is_ticked = option in draft.ticked
            mark, turn = (_TICKED, "off") if is_ticked else (_UNTICKED, "on")
            yield (CardButton(folded(f"{mark} {text}", LABEL_MAX), f"tick {number} {option} {turn}"),)
        else:
            yield (CardButton(folded(text, LABEL_MAX), f"option {number} {option}"),)
    turns = []
    if page > 0:
        turns.append(CardButton("Previous options", f"page {number} {page - 1}"))
    if page < pages - 1:
        turns.append(CardButton("More options", f"page {number} {page + 1}"))
    if turns:
        yield tuple(turns)
    if question.multiple and question.options:
        yield (CardButton("Done", f"done {number}"),)
    if draft.answers:
        yield (CardButton("Start again", "again"),)
