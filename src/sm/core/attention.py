"""Sorts sessions by the attention that they need, and describes the current task of each one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sm.core.budget_lines import budget_request
from sm.core.exchange_lines import exchange_request
from sm.core.models import Session
from sm.core.requests import Request
from sm.core.states import RequestKind
from sm.core.statuses import ENDED, Status
from sm.core.text import tool_use


class Attention(StrEnum):
    WAITING = "waiting"
    """The session waits for an answer of a person or of its parent."""
    WORKING = "working"
    IDLE = "idle"
    ENDED = "ended"


class TaskKind(StrEnum):
    """The source of a task's text."""

    REQUEST = "request"
    RESULT = "result"
    NOTE = "note"
    ACTIVITY = "activity"
    ANSWER = "answer"
    """The agent's last words."""
    TITLE = "title"
    REASON = "reason"
    """The reason of the session's pause, or of its status."""


@dataclass(frozen=True, slots=True)
class Task:
    kind: TaskKind
    text: str
    """Not empty. May quote the agent, so fold it before it is shown."""


def attention(session: Session, requests: Sequence[Request]) -> Attention:
    """`requests`: the open requests of the session that have no proposed answer."""
    if session.status in ENDED:
        return Attention.ENDED
    if requests or session.status is Status.WAITING_INPUT:
        return Attention.WAITING
    return Attention.IDLE if session.status is Status.IDLE else Attention.WORKING


def current_task(
    session: Session, requests: Sequence[Request], activity: str | None, answer: str | None
) -> Task:
    """The most useful description of what the session does or waits for.

    `requests`: as for `attention`; `activity`: its current activity; `answer`: its last words.
    """
    reason = TaskKind.REASON, session.status_reason
    note, title = (TaskKind.NOTE, session.note), (TaskKind.TITLE, session.title)
    said = TaskKind.ANSWER, answer
    candidates: tuple[tuple[TaskKind, str | None], ...]
    match attention(session, requests):
        case Attention.WORKING | Attention.IDLE if session.paused is not None:
            candidates = (TaskKind.REASON, session.paused.reason), reason
        case Attention.WAITING:
            candidates = (TaskKind.REQUEST, _request_text(requests)), reason
        case Attention.WORKING if session.restarts is not None and session.restarts.next_at is not None:
            candidates = (reason,)
        case Attention.WORKING:
            candidates = note, (TaskKind.ACTIVITY, activity), said, title, reason
        case Attention.IDLE:
            candidates = said, note, title, reason
        case Attention.ENDED:
            candidates = (TaskKind.RESULT, session.completion_message), reason, said
    shown = ((kind, text) for kind, text in candidates if text and text.strip())
    return Task(*next(shown, (TaskKind.REASON, str(session.status))))


def _request_text(requests: Sequence[Request]) -> str:
    """The oldest request in one line; the number of the others."""
    if not requests:
        return ""
    first, more = requests[0], len(requests) - 1
    match first.kind:
        case RequestKind.QUESTION:
            what = f"asks: {first.text}"
        case RequestKind.COMPLETION:
            what = f"proposes its completion: {first.text or 'done'}"
        case RequestKind.SETUP:
            what = first.text
        case RequestKind.BUDGET:
            what = budget_request(first.arguments)
        case RequestKind.EXCHANGE:
            what = exchange_request(first.arguments)
        case _:
            what = f"asks for permission: {tool_use(first.tool, first.arguments)}"
    return f"{first.name} {what}" + (f" (and {more} more)" if more else "")
