"""Builds the report of `sm progress` from evidence. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from sm.core.lifecycle import is_ended
from sm.core.models import Checkpoint, Session
from sm.core.statuses import Status
from sm.core.usage import ToolUse, Usage

_TASKS = re.compile(r"\((\d{1,4})/(\d{1,4})\b[^)]*\)")
_DONE = "completed"
"""How an entry of a list of tasks is called that is done."""
_MOST_ESTIMATED = 99
"""Per cent. That others needed no more tokens than this one has used does not make it finished."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Sums by kind. A token counts in exactly one of them."""

    input: int = 0
    """Without what came from the cache or went into it."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @classmethod
    def of(cls, usages: Iterable[Usage]) -> Self:
        return sum((cls(u.input, u.output, u.cache_read, u.cache_write) for u in usages), cls())

    @property
    def used(self) -> int:
        """Input and output: what was said and what was answered. The cache repeats the conversation at each turn."""
        return self.input + self.output

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was read from an agent's transcripts and hooks. None: not known, as against a count of nothing."""

    tokens: TokenCounts | None = TokenCounts()
    """Of the conversation itself; None: tokens are not counted."""
    subagents: TokenCounts = TokenCounts()
    tools: Mapping[str, int] = field(default_factory=dict)
    """How often each was used, by sub-agents too; in the order in which they are shown."""
    last_tool: ToolUse | None = None
    context_tokens: int | None = None
    """What the conversation holds now."""
    context_window: int | None = None
    """What it can hold."""
    cost_usd: float | None = None
    """None when a model has no known price."""
    current_activity: str | None = None
    """What the agent does now, by its own hooks, in one line."""
    todo: Sequence[tuple[str, str]] | None = None
    """(status, text) of each entry of its list; None: it keeps none."""
    estimate: int | None = None
    """The tokens that finished sessions of this agent type used: their median."""


def seconds_between(earlier: str, later: str) -> int:
    """Whole seconds from one ISO 8601 time to another, never negative."""
    return max(0, int((datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()))


def report(
    session: Session,
    checkpoints: Sequence[Checkpoint],
    last_output: Sequence[str],
    now: str,
    measured: Measurements | None = None,
) -> dict[str, Any]:
    """The object of `sm progress --json` (seed 003, with design section 13; docs/protocol.md says what each means).

    What nobody measured is null: a `command` agent has no tokens and no tools. `measured` None: there is nothing
    to measure it by.
    """
    idle = session.status is Status.IDLE
    # What an agent did that rests or has ended is its last tool.
    at_work = session.status in (Status.STARTING, Status.RUNNING, Status.WAITING_INPUT)
    known = measured or Measurements()
    tokens = None if measured is None or known.tokens is None else known.tokens + known.subagents
    remaining, percentage = _outlook(session, checkpoints, known, 0 if tokens is None else tokens.used)
    return {
        "session_id": session.id,
        "name": session.display_name,
        "status": "working" if session.status is Status.RUNNING else session.status.value,
        "elapsed_seconds": seconds_between(
            session.started_at or session.created_at, session.completed_at or now
        ),
        "tokens_used": None if tokens is None else tokens.used,
        "tokens": None if tokens is None else asdict(tokens),
        "subagents": None if tokens is None else {"tokens": asdict(known.subagents)},
        "tokens_remaining_estimate": None if tokens is None else remaining,
        "completion_percentage": percentage,
        "cost_usd": None if known.cost_usd is None else round(known.cost_usd, 6),
        "context_tokens": known.context_tokens,
        "context_window": known.context_window,
        "context_percent": _context_percent(known),
        "tools_used": dict(known.tools),
        "total_tools": sum(known.tools.values()),
        "last_tool": _last_tool(known.last_tool, now),
        "current_activity": session.note or (known.current_activity if at_work else None),
        "todo": None if known.todo is None else [{"status": s, "text": text} for s, text in known.todo],
        "checkpoints": [
            {"timestamp": c.timestamp, "message": c.message, "metadata": dict(c.metadata)}
            for c in checkpoints
        ],
        "last_output": list(last_output),
        "is_idle": idle,
        "idle_seconds": seconds_between(session.status_at, now) if idle else 0,
        "is_waiting_input": session.status is Status.WAITING_INPUT,
        "is_complete": is_ended(session.status),
        "completion_status": session.completion_status,
        "completion_message": session.completion_message,
    }


def without_words(shown: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """The same for who may see the session and not read it: without what is said and done in it."""
    tool = shown["last_tool"]
    return {
        **shown,
        "last_tool": None if tool is None else {**tool, "args": {}},
        "current_activity": session.note,
        "todo": None,
        "last_output": [],
    }


def _last_tool(tool: ToolUse | None, now: str) -> dict[str, Any] | None:
    if tool is None:
        return None
    return {
        "name": tool.name,
        "args": dict(tool.arguments),
        "timestamp": tool.at,
        "seconds_ago": seconds_between(tool.at, now),
    }


def _context_percent(measured: Measurements) -> int | None:
    if measured.context_tokens is None or not measured.context_window:
        return None
    return min(100, round(100 * measured.context_tokens / measured.context_window))


# ------------------------------------------------------------------------------------------ how far, how much


def _reported_tasks(checkpoints: Sequence[Checkpoint]) -> tuple[int, int] | None:
    """(done, all) of the newest checkpoint that says so."""
    for checkpoint in reversed(checkpoints):
        for done, whole in reversed(_TASKS.findall(checkpoint.message)):
            if 0 < int(whole) >= int(done):
                return int(done), int(whole)
    return None


def _outlook(
    session: Session, checkpoints: Sequence[Checkpoint], measured: Measurements, used: int
) -> tuple[int | None, int | None]:
    """(tokens that remain, per cent done): by what the agent reported, else by its list, else by what others used.

    What has ended uses no more, and what others used says nothing of how far it came.
    """
    ended = is_ended(session.status)
    usual = None if ended else measured.estimate or None
    remaining = None if usual is None else max(0, usual - used)
    tasks = _reported_tasks(checkpoints)
    if tasks is None and measured.todo:
        tasks = sum(status == _DONE for status, _ in measured.todo), len(measured.todo)
    if tasks is not None:
        done, whole = tasks
        if done and used and not ended:
            remaining = round(used * (whole - done) / done)
        return remaining, round(100 * done / whole)
    if not usual:
        return None, None
    return remaining, min(_MOST_ESTIMATED, 100 * used // usual)
