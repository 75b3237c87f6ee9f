"""Cards of requests and lists of sessions, as texts. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sm.core.labels import label
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.text import folded
from sm.core.wording import outcome
from sm.telegram.replies import NewButton
from sm.telegram.request_card import CardFile, finished_card, request_card
from sm.telegram.text import escaped

UNTRUSTED = "(untrusted)"
_TASK_MAX = 60


@dataclass(frozen=True, slots=True)
class Card:
    """A request in the markup of Telegram, with the buttons that the bot carries out."""

    html: str
    file: CardFile | None = None
    """The whole content, if the card shows only a part of it."""
    buttons: Sequence[NewButton] = ()


def card_of(request: Request, session: Session | None) -> Card:
    """The card of a request in its current state. Only an open request without a proposed answer has buttons."""
    if session is None:
        return Card(f"<b>{request.name}</b>: {escaped(folded(_result(request), 300))}")
    if not request.open:
        return Card(finished_card(session, request, _result(request)).text)
    if request.has_proposed_answer:
        return Card(finished_card(session, request, "an answer is on its way to the agent").text)
    if request.kind is RequestKind.SETUP:
        where = f"only a person at a terminal can answer: sm attach {session.id}"
        return Card(finished_card(session, request, where).text)
    card = request_card(session, request)
    rows = [button for row in card.buttons for button in row]
    buttons = [NewButton(b.label, _action(request, b.choice)) for b in rows]
    return Card(card.text, card.file, buttons)


def _result(request: Request) -> str:
    by = f" by {request.answered_by}" if request.answered_by else ""
    reason = "" if request.answer is not None or not request.reason else f" ({request.reason})"
    return f"{outcome(request)}{by}, {request.state_at[11:16]} UTC{reason}"


def _action(request: Request, choice: str) -> str:
    """`approve r57`, `option r57 2`"""
    word, *number = choice.split()
    return " ".join((word, request.name, *number))


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
