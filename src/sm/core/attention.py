"""Sorts sessions by the attention that they need, and describes the current task of each one. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from sm.core.dataclass import dataclass
from sm.core.models import Session
from sm.core.programs import is_plan
from sm.core.request_words import plan_words, words_of_kind
from sm.core.requests import Request
from sm.core.session_lines import failure_words
from sm.core.states import RequestKind
from sm.core.statuses import ENDED, Status
from sm.core.task_kinds import TaskKind
from sm.core.text import tool_use
from sm.core.timestamps import later


class Attention(StrEnum):
    """The group of a session in every view."""

    WAITING = "waiting"
    """The session waits for an answer of a person or of its parent."""
    FAILED = "failed"
    """The session failed, and the operator has not seen that."""
    DONE = "done"
    """The session completed, and the operator has not seen that. Its process may run."""
    WORKING = "working"
    IDLE = "idle"
    OLDER = "older"
    """The operator has not seen the end of the session, which was long ago."""
    ENDED = "ended"


HIDDEN = frozenset({Attention.OLDER, Attention.ENDED})
"""The groups that lists show only if they are asked for ended sessions."""
UNSEEN = frozenset({Attention.FAILED, Attention.DONE, Attention.OLDER})
FAILURES = frozenset({Status.ERROR, Status.ABANDONED})


@dataclass(frozen=True, slots=True)
class Task:
    kind: TaskKind
    text: str
    """Not empty. May quote the agent, so fold it before it is shown."""


def attention(session: Session, requests: Sequence[object], unseen_since: str | None) -> Attention:
    """Return the group of a session. No other code decides it.

    `requests`: the open requests of the session that have no proposed answer. `unseen_since`: an ending before that
    time is OLDER; None for callers other than the operator, to whom no ending is unseen.
    """
    if session.status in ENDED:
        if unseen_since is None or session.archived or not _concerns_operator(session):
            return Attention.ENDED
        # A kill is somebody's wish, and no result.
        if not is_unseen(session) or session.status is Status.KILLED:
            return Attention.ENDED
        if session.status_at < unseen_since:
            return Attention.OLDER
        return Attention.FAILED if session.status in FAILURES else Attention.DONE
    if requests or session.status is Status.WAITING_INPUT:
        return Attention.WAITING
    return Attention.IDLE if session.status is Status.IDLE else Attention.WORKING


def is_unseen(session: Session) -> bool:
    """True if the session has ended and the operator has not looked at it since."""
    is_seen = session.seen_at is not None and session.seen_at >= session.status_at
    return session.status in ENDED and not is_seen


def unseen_since(now: str, days: float) -> str:
    """Return the time before which an ending is old."""
    return later(now, -days * 86_400)


def count_hidden(
    sessions: Iterable[Session], unseen_since: str | None, past: Mapping[tuple[Status, bool], int]
) -> dict[str, int]:
    """Count the ended sessions that a list leaves out, as `left_out` of `core.session_lines` shows them.

    `past`: the number of further ones, by status, and by whether nobody has seen their end.
    """
    left, older = Counter[Status](), 0
    for session in sessions:
        group = attention(session, (), unseen_since)
        if group in HIDDEN:
            left[session.status] += 1
            older += group is Attention.OLDER
    for (status, is_unseen), count in past.items():
        left[status] += count
        older += count if is_unseen and unseen_since is not None else 0
    return {
        "failed": sum(left[status] for status in FAILURES),
        "completed": left[Status.COMPLETED],
        "killed": left[Status.KILLED],
        "older": older,
    }


def _concerns_operator(session: Session) -> bool:
    """False for the child of an agent that was told of its end."""
    return session.parent_id is None or session.told_operator or not session.created_by.startswith("session:")


class EndedChildren:
    """Counts the failed and the completed children of each session."""

    def __init__(self, sessions: Iterable[Session] = ()) -> None:
        self._ends: dict[str, tuple[str, Status]] = {}
        self._counts: dict[str, Counter[Status]] = {}
        for session in sessions:
            self.put(session)

    def failed(self, session_id: str) -> int:
        counts = self._counts.get(session_id)
        return 0 if counts is None else counts[Status.ERROR] + counts[Status.ABANDONED]

    def done(self, session_id: str) -> int:
        counts = self._counts.get(session_id)
        return 0 if counts is None else counts[Status.COMPLETED]

    def add(self, parent_id: str, status: Status, count: int) -> None:
        """Count further children, which are not put one by one."""
        self._counts.setdefault(parent_id, Counter())[status] += count

    def put(self, session: Session) -> set[str]:
        """Add a session, or replace the one with its id. Returns the parents whose counts may have changed."""
        end = None
        if session.parent_id is not None and session.status in ENDED and not session.archived:
            end = session.parent_id, session.status
        if self._ends.get(session.id) == end:
            return set()
        changed = self.remove(session.id)
        if end is not None:
            self._ends[session.id] = end
            self._counts.setdefault(end[0], Counter())[end[1]] += 1
            changed.add(end[0])
        return changed

    def remove(self, session_id: str) -> set[str]:
        """Remove a session. Returns its parent if its counts may have changed."""
        end = self._ends.pop(session_id, None)
        if end is None:
            return set()
        self._counts[end[0]][end[1]] -= 1
        return {end[0]}


def current_task(
    session: Session, asked: str, activity: str | None, answer: str | None, prompt: str | None
) -> Task:
    """The most useful description of what the session does or waits for.

    `asked`: the `request_line` of its open requests; `activity`: its current activity; `answer`: its last words;
    `prompt`: the task that it was started with.
    """
    reason = TaskKind.REASON, session.status_reason
    note, title = (TaskKind.NOTE, session.note), (TaskKind.TITLE, session.title)
    said, told = (TaskKind.ANSWER, answer), (TaskKind.PROMPT, prompt)
    candidates: tuple[tuple[TaskKind, str | None], ...]
    match attention(session, (asked,) if asked else (), None):
        case Attention.WORKING | Attention.IDLE if session.paused is not None:
            candidates = (TaskKind.REASON, session.paused.reason), reason
        case Attention.WAITING:
            candidates = (TaskKind.REQUEST, asked), reason
        case Attention.WORKING if session.restarts is not None and session.restarts.next_at is not None:
            candidates = (reason,)
        case Attention.WORKING:
            candidates = note, (TaskKind.ACTIVITY, activity), said, title, told, reason
        case Attention.IDLE:
            candidates = said, note, title, told, reason
        case _ if session.status in FAILURES:
            result = session.completion_message
            own = TaskKind.RESULT, None if result == session.status_reason else result
            candidates = own, (TaskKind.REASON, failure_words(session.status_reason, answer)), said
        case _:
            candidates = (TaskKind.RESULT, session.completion_message), reason, said
    shown = ((kind, text) for kind, text in candidates if text and text.strip())
    return Task(*next(shown, (TaskKind.REASON, str(session.status))))


def request_line(requests: Sequence[Request]) -> str:
    """The oldest request in one line, and the number of the others; empty without any. `requests`: see `attention`."""
    if not requests:
        return ""
    first, more = requests[0], len(requests) - 1
    match first.kind:
        case RequestKind.QUESTION:
            what = f"asks: {first.text}"
        case RequestKind.COMPLETION:
            what = f"proposes its completion: {first.text or 'done'}"
        case RequestKind.SETUP | RequestKind.DIALOG:
            what = first.text
        case kind if (words := words_of_kind(kind)) is not None:
            what = words.asks(first.arguments)
        case _ if is_plan(first.tool):
            what = f"proposes a plan: {plan_words(first.arguments or {})}"
        case _:
            what = f"wants {tool_use(first.tool, first.arguments)}"
    return f"{first.name} {what}" + (f" (and {more} more)" if more else "")
