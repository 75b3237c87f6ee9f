"""The routes of live views: rows of sessions that follow their changes, and their statuses over time."""

from collections.abc import Sequence
from typing import Annotated

from aiohttp import web

from sm.api.context import ApiRequest
from sm.api.event_streams import HEARTBEAT, event_stream
from sm.api.fields import Present, count, doc
from sm.api.live_updates import SHARED, LiveUpdates, RowViews
from sm.api.query import LISTED_MAX, ListQuery, Moment, Query, SessionName, WorkspaceName
from sm.api.route import RouteTable, StreamOf
from sm.api.views import build_view
from sm.core.labels import label
from sm.core.models import Session
from sm.core.text import folded
from sm.core.timeline import Span, spans
from sm.core.timestamps import iso, later
from sm.services import Authorizer, Live, Monitor, Reads, Requests, SeenSessions, Sessions
from sm.wire import HEARTBEAT_S
from sm.wire_types.live_answers import (
    LaneView,
    LiveUpdateView,
    SpanView,
    TimelineView,
)

_TIMELINE_S = 3600.0
_REASON_MAX = 200
routes = RouteTable()


class LiveQuery(ListQuery):
    since: Annotated[
        str | None,
        doc("The last `revision`, with the other parameters as before. An unknown one: a snapshot comes."),
    ] = None


class TimelineQuery(Query):
    since: Annotated[Moment | None, doc("Null: an hour ago.")] = None
    session: Annotated[SessionName | None, doc("Only this session.")] = None
    tree: Annotated[Present, doc("Present: with all descendants of `session`.")] = False
    workspace: WorkspaceName | None = None
    limit: Annotated[int, count(LISTED_MAX), doc("Only spans that began with the newest events.")] = (
        LISTED_MAX
    )


@routes.route("GET", "/v1/live", agents=True)
async def live(
    request: ApiRequest,
    query: LiveQuery,
    *,
    sessions: Sessions,
    live: Live,
    monitor: Monitor,
    authorizer: Authorizer,
    requests: Requests,
    seen: SeenSessions,
) -> Annotated[web.StreamResponse, StreamOf(LiveUpdateView)]:
    """Stream the sessions as rows: a snapshot, then each row that changes, whole.

    A row comes at most 4 times a second. A reader that is slower gets the newest state of each row. A comment line
    comes every 15 s.
    """
    filter = query.filter()
    sessions.select(request.caller, (), filter)  # to refuse before the stream begins
    rows = RowViews(request.views, authorizer, requests, seen)
    shared = request.http.app[SHARED]
    updates = LiveUpdates(request.caller, filter, shared, live, sessions, rows, monitor.now)
    async with live.reading(), event_stream(request) as response:
        cursor = updates.start(query.since)
        while not request.context.is_over():
            cursor, events = updates.since(cursor)
            for event in events:
                await response.write(event)
            if not await request.wait_until(lambda: live.number > cursor, HEARTBEAT_S, live):  # noqa: B023 - awaited
                await response.write(HEARTBEAT)
    return response


@routes.route("GET", "/v1/timeline", agents=True)
async def timeline(
    request: ApiRequest, query: TimelineQuery, *, sessions: Sessions, monitor: Monitor, store: Reads
) -> TimelineView:
    """Show when each session had which status, archived and ended ones included."""
    caller = request.caller
    until = iso(monitor.now())
    since = query.since or later(until, -_TIMELINE_S)
    members = await sessions.subtree(
        caller, query.session, query.workspace, descendants=query.tree, since=since
    )
    events, cut = await store.status_events([s.id for s in members], since, query.limit)
    if cut:
        since = max(since, events[-query.limit].timestamp if query.limit else until)
    found = spans(events, since)
    shown = (sessions.without_hidden_names(caller, s) for s in members if s.id in found)
    return TimelineView(since, until, [lane_json(s, found[s.id]) for s in shown])


def lane_json(session: Session, line: Sequence[Span]) -> LaneView:
    return LaneView(
        session_id=session.id,
        label=label(session),
        parent_session_id=session.parent_id,
        created_at=session.created_at,
        spans=[
            build_view(SpanView, span, reason=span.reason and folded(span.reason, _REASON_MAX))
            for span in line
        ],
    )
