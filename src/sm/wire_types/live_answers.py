"""The JSON objects in the answers of the routes of live views. Rows have no slots, as those of `sessions`."""

from collections.abc import Sequence
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.statuses import Status
from sm.core.task_kinds import TaskKind
from sm.wire_types.fields import Anything, SessionLabel, Time, narrowed
from sm.wire_types.session_answers import ListedView
from sm.wire_types.usage_answers import TokensView


@dataclass(frozen=True)
class LastToolView:
    name: str
    args: Anything
    """Truncated; empty for callers that may not read the session."""
    timestamp: Time


@dataclass(frozen=True)
class TreeView:
    """The sums of a session and its descendants, as far as the caller sees them; archived ones included."""

    sessions: int
    """At least 1, for the session itself."""
    live: int
    tokens: TokensView | None
    """Null if nothing is counted or some tokens cannot be read."""
    cost_usd: float | None
    """Null if nothing is counted, or the price of a model, or some tokens, are unknown."""


@dataclass(frozen=True)
class LiveRowView(ListedView):
    """A session with its usage and its open work. A field without a measurement is null."""

    tokens: TokensView | None
    """Includes the tokens of sub-agents. Null if unknown, or if some cannot be read."""
    cost_usd: float | None
    """Null when the price of a model, or some tokens, are unknown."""
    context_percent: int | None
    """The used part of the context window."""
    activity: str | None
    """The current activity of the agent; null for callers that may not read it."""
    last_tool: LastToolView | None
    todo_done: int | None
    """Finished entries of the agent's task list, as `todo_total`."""
    todo_total: int | None
    """Null without a list, or if the caller may not read the session."""
    task: str
    """The current work of the agent, or what it waits for, in one line.

    Without its words for callers that may not read the session."""
    task_kind: TaskKind
    open_requests: Sequence[str]
    """The open requests that the caller may answer, such as `r57`, oldest first."""
    messages_held: int
    """The queued messages to the session."""
    last_words: str | None
    """The last words of a failed session that the operator has not seen."""
    lost: bool
    """True if it ended with the machine or the tmux server: `POST /v1/restore` starts it again."""
    tree: TreeView


@dataclass(frozen=True, slots=True)
class EarlierView:
    """A number of sessions that have no row, because they ended earlier than those in memory."""

    workspace: str | None
    archived: bool
    sessions: int


@dataclass(frozen=True, slots=True)
class LiveUpdateView:
    """Rows that have changed, each in its newest state."""

    revision: str | None
    """For `since`, after a reconnect. Null while `more` is true."""
    at: Time
    """The daemon's time."""
    snapshot: bool
    """True to forget all rows that came before."""
    more: bool
    """True if the next event continues this update."""
    rows: Sequence[LiveRowView]
    removed: Sequence[str]
    """The ids of rows to forget."""
    earlier: Sequence[EarlierView] | None
    """All of them, whatever `search` says. Null if they are unchanged; there are none before the first one."""


@dataclass(frozen=True, slots=True)
class SpanView:
    """A time in which a session had one status."""

    status: Status
    """`spawned` includes the time in which the session is starting."""
    start: Time
    end: Time | None
    """Null if the session still has this status at the end of the timeline."""
    reason: str | None
    """The reason for the status when it began."""


@dataclass(frozen=True, slots=True)
class LaneView:
    """The spans of one session, oldest first."""

    session_id: str
    label: SessionLabel
    parent_session_id: str | None
    created_at: Time
    spans: Sequence[SpanView]


@dataclass(frozen=True, slots=True)
class TimelineView:
    since: Time
    """As asked, or later if there were more events than `limit`."""
    until: Time
    """As asked, or the daemon's time if that is earlier."""
    sessions: Sequence[LaneView]
    """Oldest first; without those that had ended before `since`."""


ScreenRun = Annotated[
    Sequence[str],
    narrowed(
        "array",
        items={"type": "string"},
        minItems=2,
        maxItems=2,
        description="A text and its style: words of `bold dim italic underline blink reverse hidden strike`, and `fg:`"
        " and `bg:` with a number of the palette (0 to 255) or `#rrggbb`.",
    ),
]


@dataclass(frozen=True, slots=True)
class ScreenRowView:
    row: int
    """From the top, beginning at 0."""
    runs: Sequence[ScreenRun]


@dataclass(frozen=True, slots=True)
class ScreenUpdateView:
    """Rows of a screen that have changed, the first time all of them."""

    height: int
    """The number of rows. Forget further ones."""
    rows: Sequence[ScreenRowView]
    over: bool
    """True if the process has ended or its terminal is closed, and no event follows."""
