"""The routes of live views: rows of sessions that follow their changes, and their statuses over time."""

from collections.abc import Sequence

from aiohttp import web

from sm.api.context import ApiRequest
from sm.api.event_streams import HEARTBEAT, event_stream
from sm.api.live_updates import SHARED, LiveUpdates, RowViews
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.core.labels import label
from sm.core.models import Session
from sm.core.text import folded
from sm.core.timeline import Span, spans
from sm.core.timestamps import iso, later
from sm.operations import list_operations as operations
from sm.operations.list_operations import LiveScope, TimelineScope
from sm.services import Authorizer, Live, Monitor, Reads, Requests, SeenSessions, Sessions
from sm.wire import HEARTBEAT_S
from sm.wire_types.live_answers import (
    LaneView,
    SpanView,
    TimelineView,
)

_TIMELINE_S = 3600.0
_REASON_MAX = 200

routes = OperationTable()


@routes.carries_out(operations.FOLLOW_ROWS)
async def live(
    request: ApiRequest,
    query: LiveScope,
    *,
    sessions: Sessions,
    live: Live,
    monitor: Monitor,
    authorizer: Authorizer,
    requests: Requests,
    seen: SeenSessions,
) -> web.StreamResponse:
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
            if (counted := await updates.earlier(cursor)) is not None:
                await response.write(counted)
            if not await request.wait_until(lambda: live.number > cursor, HEARTBEAT_S, live):  # noqa: B023 - awaited
                await response.write(HEARTBEAT)
    return response


@routes.carries_out(operations.TIMELINE)
async def timeline(
    request: ApiRequest, query: TimelineScope, *, sessions: Sessions, monitor: Monitor, store: Reads
) -> TimelineView:
    caller = request.caller
    now = iso(monitor.now())
    until = min(query.until or now, now)
    since = query.since or later(until, -_TIMELINE_S)
    members = await sessions.subtree(
        caller, query.session, query.workspace, descendants=query.tree, since=since
    )
    events, cut = await store.status_events([s.id for s in members], since, until, query.limit)
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
