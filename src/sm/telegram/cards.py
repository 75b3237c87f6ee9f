"""Cards of requests and lists of sessions, as texts. Pure."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sm.core.labels import label
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.states import RequestKind, TrustLevel
from sm.core.text import folded
from sm.core.wording import outcome
from sm.telegram.replies import NewButton
from sm.telegram.text import cut, escaped, preformatted, utf16_length, visible

UNTRUSTED = "(untrusted)"
_CONTENT_MAX = 3500
_HEAD, _TAIL = 2000, 800
_OPTIONS_MAX = 8
_TASK_MAX = 60


@dataclass(frozen=True, slots=True)
class Card:
    """A request in the markup of Telegram."""

    html: str
    document: str | None = None
    """The whole content, if the card shows only a part of it."""
    buttons: Sequence[NewButton] = ()


def request_card(request: Request, session: Session | None) -> Card:
    """The card of a request. Only an open request without a proposed answer has buttons."""
    who = request.session_id if session is None else f"{label(session)} ({session.id})"
    sandboxed = session is None or session.effective_mode is TrustLevel.SANDBOXED
    head = f"<b>{request.kind.value.capitalize()} {request.name}</b> of {escaped(who)}"
    if sandboxed:
        head += f" {UNTRUSTED}"
    if request.tool:
        head += f"\nTool: {escaped(folded(request.tool, 100))}"
    content = visible(_content(request))
    body, document = _body(content)
    lines = [head, body]
    if request.cut:
        lines.append("The agent's arguments were too long: a part of them is missing.")
    if not request.open:
        lines.append(f"<b>{escaped(folded(_result(request), 300))}</b>")
    elif request.has_proposed_answer:
        lines.append("An answer is on its way to the agent.")
    elif request.kind is RequestKind.SETUP:
        lines.append(f"Only a person at a terminal can answer: sm attach {request.session_id}")
    return Card("\n".join(filter(None, lines)), document, _buttons(request))


def _result(request: Request) -> str:
    by = f" by {request.answered_by}" if request.answered_by else ""
    reason = "" if request.answer is not None or not request.reason else f" ({request.reason})"
    return f"{outcome(request)}{by}, {request.state_at[11:16]} UTC{reason}"


def _content(request: Request) -> str:
    parts = [
        "\n".join(
            [question.question, *(f"{number}. {option}" for number, option in enumerate(question.options, 1))]
        )
        for question in request.questions
    ]
    for name, value in (request.arguments or {}).items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
        parts.append(f"{name}: {shown}")
    return "\n".join(parts)


def _body(content: str) -> tuple[str, str | None]:
    if not content.strip():
        return "", None
    if utf16_length(content) <= _CONTENT_MAX:
        return preformatted(content), None
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    left_out = f"[{len(content):,} characters, SHA-256 {digest}: see the file]"
    shown = f"{cut(content, _HEAD)}\n{left_out}\n…{cut(content[-_TAIL // 2 :], _TAIL)}"
    return preformatted(shown), content


def _buttons(request: Request) -> list[NewButton]:
    if not request.open or request.has_proposed_answer or request.kind is RequestKind.SETUP:
        return []
    if request.kind is not RequestKind.QUESTION:
        no = "Deny" if request.kind is RequestKind.PERMISSION else "Reject"
        return [NewButton("Approve", f"approve {request.name}"), NewButton(no, f"deny {request.name}")]
    if len(request.questions) != 1 or request.questions[0].multiple:
        return []
    options = request.questions[0].options[:_OPTIONS_MAX]
    return [NewButton(option, f"option {request.name} {number}") for number, option in enumerate(options, 1)]


def how_to_answer(request: Request) -> str:
    """The command that answers a question without buttons for its answers."""
    return f"Reply to this message, or: /answer {request.name} TEXT"


def session_tree(
    sessions: Iterable[Session], tasks: Mapping[str, str], waits: Mapping[str, Sequence[str]], *, title: str
) -> str:
    """Sessions as a tree. `tasks`: the current task of each; `waits`: the names of their open requests."""
    known = {session.id: session for session in sessions}
    if not known:
        return f"{title}:\nnone"
    children: dict[str | None, list[Session]] = {}
    for session in known.values():
        children.setdefault(session.parent_id if session.parent_id in known else None, []).append(session)

    def lines(parent: str | None, indent: str) -> Iterator[str]:
        below = children.get(parent, [])
        for session in below:
            is_last = session is below[-1]
            branch = "" if parent is None else "└─ " if is_last else "├─ "
            asked = waits.get(session.id, ())
            waiting = f" · waits: {', '.join(asked)}" if asked else ""
            task = folded(tasks.get(session.id, session.status.value), _TASK_MAX)
            yield f"- {indent}{branch}{label(session)} ({session.id}) - {task}{waiting}"
            deeper = "" if parent is None else "   " if is_last else "│  "
            yield from lines(session.id, indent + deeper)

    return "\n".join([f"{title}:", *lines(None, "")])
