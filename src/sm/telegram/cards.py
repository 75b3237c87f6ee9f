"""Cards of requests and lists of sessions, as texts."""

from collections.abc import Iterable, Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.core.forest import Forest
from sm.core.labels import label
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.telegram_model import CardDraft
from sm.core.telegram_text import escaped
from sm.core.text import folded
from sm.core.wording import outcome
from sm.services import Dialogs, Reads
from sm.telegram.replies import NewButton
from sm.telegram.request_card import CardFile, finished_card, request_card

UNTRUSTED = "(untrusted)"
_TASK_MAX = 60
_LABEL_MAX = 60
_WAITS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Card:
    """A request in the markup of Telegram, with the buttons that the bot carries out."""

    html: str
    file: CardFile | None = None
    """The whole content, if the card shows only a part of it."""
    buttons: Sequence[Sequence[NewButton]] = ()
    """Rows."""


_UNTOUCHED = CardDraft("", 0)


def draw(store: Reads, dialogs: Dialogs, request: Request, draft: CardDraft = _UNTOUCHED) -> Card:
    """The card of a request in its current state. Only an open request without a proposed answer has buttons."""
    session = store.sessions.get(request.session_id)
    if session is None:
        return Card(f"<b>{request.name}</b>: {escaped(folded(result(request), 300))}")
    plan = None
    if request.kind is RequestKind.PERMISSION:
        plan = dialogs.plan(session, request.tool, request.arguments)
    if not request.open:
        return Card(finished_card(session, request, result(request), plan=plan).text)
    if request.has_proposed_answer:
        return Card(finished_card(session, request, "an answer is on its way to the agent", plan=plan).text)
    if request.kind in (RequestKind.SETUP, RequestKind.DIALOG):
        where = f"only a person at a terminal can answer: sm attach {session.id}"
        return Card(finished_card(session, request, where).text)
    if len(draft.answers) >= len(request.questions):
        draft = CardDraft(draft.about, draft.chat_id, reason_from=draft.reason_from)
    card = request_card(session, request, plan=plan, draft=draft)
    rows = [[NewButton(b.label, _action(request, b.choice)) for b in row] for row in card.buttons]
    return Card(card.text, card.file, rows)


def result(request: Request) -> str:
    """The outcome of a request: `approved by telegram:4711, 15:12 UTC`."""
    by = f" by {request.answered_by}" if request.answered_by else ""
    reason = "" if request.answer is not None or not request.reason else f" ({request.reason})"
    return f"{outcome(request)}{by}, {request.state_at[11:16]} UTC{reason}"


def _action(request: Request, choice: str) -> str:
    """`approve r57`, `option r57 2`"""
    word, *number = choice.split()
    return " ".join((word, request.name, *number))


def tree_rows(sessions: Iterable[Session]) -> list[tuple[str, Session]]:
    """The sessions in the order of a tree, each with the lines of the tree before it."""
    forest = Forest(sessions, lambda session: session.id, lambda session: session.parent_id)
    return [(placed.branch, placed.row) for placed in forest.lines()]


def session_lines(
    rows: Iterable[tuple[str, Session]],
    tasks: Mapping[str, str],
    waits: Mapping[str, Sequence[str]],
    *,
    with_workspace: bool = False,
) -> list[str]:
    """One line for each row. `tasks`: the current task of each session; `waits`: the names of its open requests."""
    lines = []
    for branch, session in rows:
        asked = waits.get(session.id, ())
        more = f" and {len(asked) - _WAITS_SHOWN} more" if len(asked) > _WAITS_SHOWN else ""
        waiting = f" · waits: {', '.join(asked[:_WAITS_SHOWN])}{more}" if asked else ""
        task = folded(tasks.get(session.id, session.status.value), _TASK_MAX)
        name = folded(label(session), _LABEL_MAX)
        mark = " !direct" if session.fell_back else ""
        workspace = f" @{session.workspace}" if with_workspace and session.workspace else ""
        lines.append(f"- {branch}{name} ({session.id}){mark}{workspace} - {task}{waiting}")
    return lines or ["none"]
