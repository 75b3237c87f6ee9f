"""Reads what live views show: the rows of sessions, as docs/protocol.md describes them.

Not loaded by ordinary commands, so it may import `typing`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypedDict, cast

from sm.client.http import Client, decode_answer, session_path


class TokensData(TypedDict):
    input: int
    output: int
    cache_read: int
    cache_write: int


class LastToolData(TypedDict):
    name: str
    args: dict[str, Any]
    timestamp: str


class TreeData(TypedDict):
    sessions: int
    live: int
    tokens: TokensData | None
    cost_usd: float | None


class WorktreeData(TypedDict):
    path: str
    branch: str | None


class PausedData(TypedDict):
    at: str
    by: str
    reason: str
    until: str | None


class WarningData(TypedDict):
    kind: str
    at: str
    value: float
    limit: float
    evidence: str


class RowData(TypedDict):
    """A session with its usage and its open work."""

    session_id: str
    name: str
    friendly_name: str | None
    label: str
    title: str | None
    agent_type: str
    provider: str
    model: str | None
    program_version: str | None
    status: str
    status_source: str
    status_reason: str
    status_at: str
    status_stale: bool
    mode: str
    mode_source: str
    parent_session_id: str | None
    parent_label: str | None
    created_by: str
    working_dir: str
    workspace: str | None
    trust_level: str
    effective_mode: str
    tmux_session: str
    pid: int | None
    exit_code: int | None
    exit_signal: int | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    completion_status: str | None
    completion_message: str | None
    note: str | None
    last_activity_at: str
    archived: bool
    seen_at: str | None
    paused: PausedData | None
    restarts: Mapping[str, Any] | None
    budget: Mapping[str, Any] | None
    warnings: list[WarningData]
    worktree: WorktreeData | None
    children: list[Any]
    tokens: TokensData | None
    cost_usd: float | None
    context_percent: int | None
    activity: str | None
    last_tool: LastToolData | None
    todo_done: int | None
    todo_total: int | None
    open_requests: list[str]
    messages_held: int
    attention: str
    last_words: str | None
    children_failed: int
    children_done: int
    lost: bool
    tree: TreeData


class UpdateData(TypedDict):
    """Rows that have changed, each in its newest state."""

    revision: str | None
    at: str
    snapshot: bool
    more: bool
    rows: list[RowData]
    removed: list[str]


class ModelUsageData(TypedDict):
    model: str
    tokens: TokensData
    cost_usd: float | None


class UsageBucketData(TypedDict):
    at: str
    tokens: TokensData
    cost_usd: float | None
    models: list[ModelUsageData]


class UsageSeriesData(TypedDict):
    """The usage of sessions over time."""

    by: str
    since: str
    counted: bool
    buckets: list[UsageBucketData]


class SpanData(TypedDict):
    status: str
    start: str
    end: str | None
    reason: str | None


class LaneData(TypedDict):
    session_id: str
    label: str
    parent_session_id: str | None
    created_at: str
    spans: list[SpanData]


class TimelineData(TypedDict):
    """When each session had which status."""

    since: str
    until: str
    sessions: list[LaneData]


class ScreenRowData(TypedDict):
    row: int
    runs: list[list[str]]


class ScreenUpdateData(TypedDict):
    """Rows of a screen that have changed, the first time all of them."""

    height: int
    rows: list[ScreenRowData]
    over: bool


def updates(
    client: Client,
    *,
    since: str | None = None,
    archived: bool = False,
    workspace: str | None = None,
    status: str | None = None,
    search: str | None = None,
    reader_fd: int | None = None,
) -> Iterator[UpdateData]:
    """Follow the rows. Raises DaemonAway when the stream ends: call again with the last `revision` as `since`.

    `reader_fd`: as for `Client.events`.
    """
    query = {
        "since": since,
        "archived": archived,
        "workspace": workspace,
        "status": status,
        "search": search,
    }
    for _, data in client.events("/v1/live", query, reader_fd=reader_fd):
        yield cast(UpdateData, decode_answer(data))


def usage(
    client: Client,
    *,
    by: Literal["minute", "hour", "day"] = "hour",
    session: str | None = None,
    tree: bool = False,
    workspace: str | None = None,
    since: str | None = None,
    limit: int | None = None,
) -> UsageSeriesData:
    """The usage of all sessions that the caller sees together; of `session`, with `tree` also of its descendants."""
    query = {
        "by": by,
        "session": session,
        "tree": tree,
        "workspace": workspace,
        "since": since,
        "limit": limit,
    }
    return cast(UsageSeriesData, client.get("/v1/usage", query))


def timeline(
    client: Client,
    *,
    since: str | None = None,
    session: str | None = None,
    tree: bool = False,
    workspace: str | None = None,
    limit: int | None = None,
) -> TimelineData:
    """The statuses of sessions since that time, by default of the last hour."""
    query = {"since": since, "session": session, "tree": tree, "workspace": workspace, "limit": limit}
    return cast(TimelineData, client.get("/v1/timeline", query))


def screen(client: Client, session: str, *, reader_fd: int | None = None) -> Iterator[ScreenUpdateData]:
    """Follow the visible screen of a session's terminal, for a person, until its process has ended.

    Raises DaemonAway when the stream breaks, and NotPermitted when the caller may not read the session.
    `reader_fd`: as for `Client.events`.
    """
    path = session_path(session, "/screen/stream")
    for _, data in client.events(path, {"seen": True}, reader_fd=reader_fd):
        update = cast(ScreenUpdateData, decode_answer(data))
        yield update
        if update["over"]:
            return
