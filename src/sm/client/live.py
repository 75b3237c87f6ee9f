"""Reads what live views show: the rows of sessions, as docs/protocol.md describes them.

Not loaded by ordinary commands, so it may import `typing`.
"""

from collections.abc import Iterator
from typing import Any, Literal, TypedDict, cast

from sm.client.http import Client, decode_answer


class Tokens(TypedDict):
    input: int
    output: int
    cache_read: int
    cache_write: int


class LastTool(TypedDict):
    name: str
    args: dict[str, Any]
    timestamp: str


class Tree(TypedDict):
    sessions: int
    live: int
    tokens: Tokens | None
    cost_usd: float | None


class Worktree(TypedDict):
    path: str
    branch: str | None


class Row(TypedDict):
    """A session with its usage and its open work."""

    session_id: str
    name: str
    friendly_name: str | None
    label: str
    title: str | None
    agent_type: str
    provider: str
    model: str | None
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
    worktree: Worktree | None
    children: list[Any]
    tokens: Tokens | None
    cost_usd: float | None
    context_percent: int | None
    activity: str | None
    last_tool: LastTool | None
    todo_done: int | None
    todo_total: int | None
    open_requests: list[str]
    messages_held: int
    tree: Tree


class Update(TypedDict):
    """Rows that have changed, each in its newest state."""

    revision: str | None
    at: str
    snapshot: bool
    more: bool
    rows: list[Row]
    removed: list[str]


class ModelUsage(TypedDict):
    model: str
    tokens: Tokens
    cost_usd: float | None


class UsageBucket(TypedDict):
    at: str
    tokens: Tokens
    cost_usd: float | None
    models: list[ModelUsage]


class UsageSeries(TypedDict):
    """The usage of sessions over time."""

    by: str
    since: str
    counted: bool
    buckets: list[UsageBucket]


class Span(TypedDict):
    status: str
    start: str
    end: str | None
    reason: str | None


class Lane(TypedDict):
    session_id: str
    label: str
    parent_session_id: str | None
    created_at: str
    spans: list[Span]


class Timeline(TypedDict):
    """When each session had which status."""

    since: str
    until: str
    sessions: list[Lane]


def updates(
    client: Client,
    *,
    since: str | None = None,
    archived: bool = False,
    workspace: str | None = None,
    status: str | None = None,
    search: str | None = None,
) -> Iterator[Update]:
    """Follow the rows. Raises DaemonAway when the stream ends: call again with the last `revision` as `since`."""
    query = {
        "since": since,
        "archived": archived,
        "workspace": workspace,
        "status": status,
        "search": search,
    }
    for _, data in client.events("/v1/live", query):
        yield cast(Update, decode_answer(data))


def usage(
    client: Client,
    *,
    by: Literal["minute", "hour", "day"] = "hour",
    session: str | None = None,
    tree: bool = False,
    workspace: str | None = None,
    since: str | None = None,
    limit: int | None = None,
) -> UsageSeries:
    """The usage of all sessions that the caller sees together; of `session`, with `tree` also of its descendants."""
    query = {
        "by": by,
        "session": session,
        "tree": tree,
        "workspace": workspace,
        "since": since,
        "limit": limit,
    }
    return cast(UsageSeries, client.get("/v1/usage", query))


def timeline(
    client: Client,
    *,
    since: str | None = None,
    session: str | None = None,
    tree: bool = False,
    workspace: str | None = None,
    limit: int | None = None,
) -> Timeline:
    """The statuses of sessions since that time, by default of the last hour."""
    query = {"since": since, "session": session, "tree": tree, "workspace": workspace, "limit": limit}
    return cast(Timeline, client.get("/v1/timeline", query))
