"""Reads what live views show: the rows of sessions, as docs/protocol.md describes them.

Not loaded by ordinary commands, so it may import `typing`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from sm.client.http import Client, decode_answer, session_path

Json = Mapping[str, Any]
"""An object of the daemon. The class in `wire_types/live_answers.py` that a function names has its fields."""


def updates(
    client: Client,
    *,
    since: str | None = None,
    archived: bool = False,
    workspace: str | None = None,
    status: str | None = None,
    search: str | None = None,
    reader_fd: int | None = None,
) -> Iterator[Json]:
    """Follow the rows: each object is a LiveUpdateView.

    Raises DaemonAway when the stream ends: call again with the last `revision` as `since`.
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
        yield cast(Json, decode_answer(data))


def usage(
    client: Client,
    *,
    by: Literal["minute", "hour", "day"] = "hour",
    session: str | None = None,
    tree: bool = False,
    workspace: str | None = None,
    since: str | None = None,
    limit: int | None = None,
) -> Json:
    """The usage of all sessions that the caller sees together, a UsageSeriesView.

    Of `session`, with `tree` also of its descendants.
    """
    query = {
        "by": by,
        "session": session,
        "tree": tree,
        "workspace": workspace,
        "since": since,
        "limit": limit,
    }
    return cast(Json, client.get("/v1/usage", query))


def timeline(
    client: Client,
    *,
    since: str | None = None,
    session: str | None = None,
    tree: bool = False,
    workspace: str | None = None,
    limit: int | None = None,
) -> Json:
    """The statuses of sessions since that time, by default of the last hour, a TimelineView."""
    query = {"since": since, "session": session, "tree": tree, "workspace": workspace, "limit": limit}
    return cast(Json, client.get("/v1/timeline", query))


def screen(client: Client, session: str, *, reader_fd: int | None = None) -> Iterator[Json]:
    """Follow the visible screen of a session's terminal, for a person, until its process has ended.

    Each update is a ScreenUpdateView. Raises DaemonAway when the stream breaks, and NotPermitted when the caller may
    not read the session. `reader_fd`: as for `Client.events`.
    """
    path = session_path(session, "/screen/stream")
    for _, data in client.events(path, {"seen": True}, reader_fd=reader_fd):
        update = cast(Json, decode_answer(data))
        yield update
        if update["over"]:
            return
