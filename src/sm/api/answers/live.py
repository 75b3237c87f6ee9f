"""The JSON objects in the answers of the routes of live views."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.answers.sessions import SessionLabel, SessionView
from sm.api.fields import doc
from sm.core.attention import Attention
from sm.core.statuses import Status
from sm.core.usage_series import UsagePeriod
from sm.wire_types.fields import Anything, Time
from sm.wire_types.usage import TokensView


class LastToolView(TypedDict):
    name: str
    args: Annotated[Anything, doc("Truncated; empty for callers that may not read the session.")]
    timestamp: Time


class TreeView(TypedDict):
    """The sums of a session and its descendants, as far as the caller sees them; archived ones included."""

    sessions: Annotated[int, doc("At least 1: the session itself.")]
    live: int
    tokens: Annotated[TokensView | None, doc("Null: nothing is counted, or some tokens cannot be read.")]
    cost_usd: Annotated[
        float | None, doc("Null: nothing is counted, or the price of a model, or some tokens, are unknown.")
    ]


class LiveRowView(SessionView):
    """A session with its usage and its open work. A field without a measurement is null."""

    tokens: Annotated[
        TokensView | None, doc("Includes the tokens of sub-agents. Null: unknown, or some cannot be read.")
    ]
    cost_usd: Annotated[float | None, doc("Null when the price of a model, or some tokens, are unknown.")]
    context_percent: Annotated[int | None, doc("The used part of the context window.")]
    activity: Annotated[str | None, doc("What the agent does now; null for callers that may not read it.")]
    last_tool: LastToolView | None
    todo_done: Annotated[int | None, doc("Finished entries of the agent's task list, as `todo_total`.")]
    todo_total: Annotated[int | None, doc("Null: no list, or a caller that may not read the session.")]
    open_requests: Annotated[
        list[str], doc("The open requests that the caller may answer, such as `r57`, oldest first.")
    ]
    messages_held: Annotated[int, doc("The queued messages to the session.")]
    attention: Annotated[Attention, doc("The group in lists, as in the overview.")]
    last_words: Annotated[
        str | None, doc("The last words of a failed session that the operator has not seen.")
    ]
    children_failed: Annotated[int, doc("Its children that failed, without archived ones.")]
    children_done: Annotated[int, doc("Its children that completed, without archived ones.")]
    lost: Annotated[
        bool, doc("It ended with the machine or the tmux server: `POST /v1/restore` starts it again.")
    ]
    tree: TreeView


class LiveUpdateView(TypedDict):
    """Rows that have changed, each in its newest state."""

    revision: Annotated[str | None, doc("For `since`, after a reconnect. Null while `more` is true.")]
    at: Annotated[Time, doc("The daemon's time.")]
    snapshot: Annotated[bool, doc("True: forget all rows that came before.")]
    more: Annotated[bool, doc("True: the next event continues this update.")]
    rows: list[LiveRowView]
    removed: Annotated[list[str], doc("The ids of rows to forget.")]


class ModelUsageView(TypedDict):
    model: str
    tokens: TokensView
    cost_usd: Annotated[
        float | None, doc("Null: the price of the model, or some of its tokens, are unknown.")
    ]


class UsageBucketView(TypedDict):
    """The usage of a minute, an hour or a day (UTC)."""

    at: Annotated[Time, doc("Its beginning.")]
    tokens: TokensView
    cost_usd: Annotated[float | None, doc("Null when the price of a model is unknown.")]
    models: list[ModelUsageView]


class UsageSeriesView(TypedDict):
    """The usage of sessions over time."""

    by: UsagePeriod
    since: Annotated[Time, doc("As asked, or later if there were more buckets than `limit`.")]
    counted: Annotated[bool, doc("False: the configuration switches the counting off.")]
    buckets: Annotated[list[UsageBucketView], doc("Oldest first; without those that have no usage.")]


class SpanView(TypedDict):
    """A time in which a session had one status."""

    status: Annotated[Status, doc("`spawned` includes the time in which the session is starting.")]
    start: Time
    end: Annotated[Time | None, doc("Null: the session still has this status.")]
    reason: Annotated[str | None, doc("The reason for the status when it began.")]


class LaneView(TypedDict):
    """The spans of one session, oldest first."""

    session_id: str
    label: SessionLabel
    parent_session_id: str | None
    created_at: Time
    spans: list[SpanView]


class TimelineView(TypedDict):
    since: Annotated[Time, doc("As asked, or later if there were more events than `limit`.")]
    until: Annotated[Time, doc("The daemon's time.")]
    sessions: Annotated[list[LaneView], doc("Oldest first; without those that had ended before `since`.")]


ScreenRun = Annotated[
    list[str],
    doc(
        "A text and its style: words of `bold dim italic underline blink reverse hidden strike`, and `fg:` and `bg:`"
        " with a number of the palette (0 to 255) or `#rrggbb`.",
        minItems=2,
        maxItems=2,
    ),
]


class ScreenRowView(TypedDict):
    row: Annotated[int, doc("From the top, beginning at 0.")]
    runs: list[ScreenRun]


class ScreenUpdateView(TypedDict):
    """Rows of a screen that have changed, the first time all of them."""

    height: Annotated[int, doc("The number of rows. Forget further ones.")]
    rows: list[ScreenRowView]
    over: Annotated[bool, doc("True: the process has ended or its terminal is closed, and no event follows.")]
