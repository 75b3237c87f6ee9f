"""Builds the report of `sm progress` from evidence. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from sm.core.dataclass import dataclass
from sm.core.estimates import Sample, estimate_totals
from sm.core.lifecycle import is_ended
from sm.core.models import Checkpoint, Session
from sm.core.pause_states import PauseState
from sm.core.statuses import Status
from sm.core.timestamps import epoch_s
from sm.core.usage import COST_DIGITS, TokenCounts, ToolUse
from sm.core.work_time import elapsed_s
from sm.wire_types.agent_answers import CheckpointView, ProgressView, SubagentsView, TodoView, ToolView
from sm.wire_types.session_answers import PausedView
from sm.wire_types.usage_answers import TokensView

_TASKS = re.compile(r"\((\d{1,4})/(\d{1,4})\b[^)]*\)")
TASK_CHECKPOINTS = 50
"""The number of newest checkpoints that are searched for a count of tasks."""
DONE = "completed"
"""The status of a finished entry of a task list."""
_MOST_ESTIMATED = 99
"""The highest estimate, in per cent: the usage of other sessions does not prove that a session is finished."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """The values read from an agent's transcripts and hooks. None means unknown, not zero."""

    tokens: TokenCounts | None = field(default_factory=TokenCounts)
    """The tokens of the main conversation, or None if tokens are not counted, or some cannot be read."""
    is_unread: bool = False
    """Some tokens cannot be read, of the main conversation or of sub-agents."""
    subagents: TokenCounts = field(default_factory=TokenCounts)
    tools: Mapping[str, int] = field(default_factory=dict)
    """Uses by tool, including those of sub-agents, in display order."""
    last_tool: ToolUse | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    cost_usd: float | None = None
    """None when a model has no known price, or some tokens cannot be read."""
    current_activity: str | None = None
    """The agent's current activity by its hooks, in one line."""
    todo: Sequence[tuple[str, str]] | None = None
    """(status, text) of each entry of the task list, or None if there is no list."""
    estimate: int | None = None
    """The median of the tokens that finished sessions of this agent type used."""
    model: str | None = None
    """The model that the session uses, or None if unknown or the provider has none."""
    prices_as_of: str | None = None
    """The date of the list prices behind `cost_usd`."""


def seconds_between(earlier: str, later: str) -> int:
    """Whole seconds from one ISO 8601 time to another, never negative."""
    return max(0, int(epoch_s(later) - epoch_s(earlier)))


def report(
    session: Session,
    checkpoints: Sequence[Checkpoint],
    last_output: Sequence[str],
    now: str,
    measured: Measurements | None = None,
    samples: Sequence[Sample] = (),
    elapsed_work_s: float = 0.0,
) -> ProgressView:
    """The progress of a session.

    Fields without a measurement are None, such as tokens and tools of a `command` agent. `measured` is None for a
    provider without transcripts. `samples`: completed sessions of the agent type, for the estimate.
    `elapsed_work_s`: the seconds of work that is under way.
    """
    known = measured or Measurements()
    tokens = None if measured is None or known.tokens is None else known.tokens + known.subagents
    worked = session.worked_s + elapsed_work_s
    elapsed = elapsed_s(session, session.completed_at or now, worked)
    used = Sample(known.model, elapsed, None if tokens is None else tokens.used, known.cost_usd)
    outlook = estimate_totals(samples, known.model, used, known_tasks(checkpoints, known))
    remaining, percentage = _outlook(session, checkpoints, known, 0 if tokens is None else tokens.used)
    return ProgressView(
        session_id=session.id,
        name=session.display_name,
        status="working" if session.status is Status.RUNNING else session.status.value,
        paused=None if session.paused is None else PausedView.of(session.paused),
        elapsed_seconds=elapsed,
        tokens_used=None if tokens is None else tokens.used,
        tokens=None if tokens is None else TokensView.of(tokens),
        tokens_partial=known.is_unread,
        subagents=None if tokens is None else SubagentsView(TokensView.of(known.subagents)),
        tokens_remaining_estimate=None if tokens is None else remaining,
        completion_percentage=percentage,
        cost_usd=None if known.cost_usd is None else round(known.cost_usd, COST_DIGITS),
        minutes=round(worked / 60, 1),
        estimate=None if is_ended(session.status) else outlook,
        prices_as_of=known.prices_as_of,
        tree=None,
        own=None,
        permission_mode=None,
        permission_source=None,
        context_tokens=known.context_tokens,
        context_window=known.context_window,
        context_percent=context_percent(known),
        tools_used=dict(known.tools),
        total_tools=sum(known.tools.values()),
        last_tool=_last_tool(known.last_tool, now),
        current_activity=session.note or (known.current_activity if _is_active(session) else None),
        todo=None if known.todo is None else [TodoView(*entry) for entry in known.todo],
        checkpoints=[CheckpointView(c.timestamp, c.message, dict(c.metadata)) for c in checkpoints],
        last_output=list(last_output),
        is_idle=session.status is Status.IDLE,
        idle_seconds=seconds_between(session.status_at, now) if session.status is Status.IDLE else 0,
        is_waiting_input=session.status is Status.WAITING_INPUT,
        is_complete=is_ended(session.status),
        completion_status=session.completion_status,
        completion_message=session.completion_message,
    )


def _is_active(session: Session) -> bool:
    """True unless the agent is idle, paused or ended: then it has no current activity, only a last tool."""
    is_working = session.status in (Status.STARTING, Status.RUNNING, Status.WAITING_INPUT)
    return is_working and (session.paused is None or session.paused.state is PauseState.PAUSING)


def without_words(shown: ProgressView, session: Session) -> ProgressView:
    """The report for a caller who may see the session but not read it."""
    tool = shown.last_tool and replace(shown.last_tool, args={})
    return replace(shown, last_tool=tool, current_activity=session.note, todo=None, last_output=[])


def _last_tool(tool: ToolUse | None, now: str) -> ToolView | None:
    if tool is None:
        return None
    return ToolView(tool.name, dict(tool.arguments), tool.at, seconds_between(tool.at, now))


def context_percent(measured: Measurements) -> int | None:
    if measured.context_tokens is None or not measured.context_window:
        return None
    return min(100, round(100 * measured.context_tokens / measured.context_window))


# ---------------------------------------------------------------------------------------------------- outlook


def _reported_tasks(checkpoints: Sequence[Checkpoint]) -> tuple[int, int] | None:
    """(done, total) of the newest checkpoint that reports them."""
    for checkpoint in reversed(checkpoints[-TASK_CHECKPOINTS:]):
        for done, total in reversed(_TASKS.findall(checkpoint.message)):
            if 0 < int(total) >= int(done):
                return int(done), int(total)
    return None


def known_tasks(checkpoints: Sequence[Checkpoint], measured: Measurements) -> tuple[int, int] | None:
    """(done, total) of the newest checkpoint that reports tasks, else of the task list, or None if neither is known."""
    tasks = _reported_tasks(checkpoints)
    if tasks is None and measured.todo:
        return sum(status == DONE for status, _ in measured.todo), len(measured.todo)
    return tasks


def _outlook(
    session: Session, checkpoints: Sequence[Checkpoint], measured: Measurements, used: int
) -> tuple[int | None, int | None]:
    """(remaining tokens, per cent done): by the reported checkpoints, else the task list, else the estimate.

    The estimate does not apply to an ended session, and a completed one is done whatever it last reported.
    """
    if session.status is Status.COMPLETED:
        return None, 100
    ended = is_ended(session.status)
    usual = None if ended else measured.estimate or None
    remaining = None if usual is None else max(0, usual - used)
    tasks = known_tasks(checkpoints, measured)
    if tasks is not None:
        done, total = tasks
        if done and used and not ended:
            remaining = round(used * (total - done) / done)
        return remaining, round(100 * done / total)
    if not usual:
        return None, None
    return remaining, min(_MOST_ESTIMATED, 100 * used // usual)
