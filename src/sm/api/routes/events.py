"""The routes of events: recorded events, and a stream of new events."""

from typing import Annotated

import orjson
from aiohttp import web

from sm.api.context import ApiRequest
from sm.api.event_streams import HEARTBEAT, event_stream
from sm.api.fields import doc
from sm.api.query import LISTED, EventsQuery, Limit, Moment
from sm.api.route import RouteTable, StreamOf
from sm.services import Reads, Sessions
from sm.wire import HEARTBEAT_S
from sm.wire_types.event_answers import EventsView, EventView

_READ_AT_ONCE = 500
routes = RouteTable()


class RecordedQuery(EventsQuery):
    since_time: Annotated[Moment | None, doc("Only events at or after this time.")] = None
    limit: Limit = LISTED


async def _scope(request: ApiRequest, query: EventsQuery, sessions: Sessions) -> list[str] | None:
    return await sessions.event_scope(
        request.caller, query.session, query.workspace, recursive=query.recursive
    )


@routes.route("GET", "/v1/events", agents=True)
async def events(
    request: ApiRequest, query: RecordedQuery, *, store: Reads, sessions: Sessions
) -> EventsView:
    """List the newest events, oldest first; with `since` or `since_time` the first events after it."""
    last = store.last_seq
    read = await store.events(
        sessions=await _scope(request, query, sessions),
        type=query.type,
        since=query.since,
        since_time=query.since_time,
        limit=query.limit,
    )
    # An event that was recorded during the read may be of a new child, which is not in the scope of the read.
    views = [request.views.event(e) for e in read if e.seq <= last]
    return EventsView(views, last)


@routes.route("GET", "/v1/events/stream", agents=True, audit="stream")
async def follow_events(
    request: ApiRequest, query: EventsQuery, *, store: Reads, sessions: Sessions
) -> Annotated[web.StreamResponse, StreamOf(EventView, "SEQ")]:
    """Stream new events; with `since` all events after it.

    A comment line comes every 15 s, so that a longer silence means that the daemon is gone.
    """
    cursor = store.last_seq if query.since is None else query.since
    await _scope(request, query, sessions)  # to refuse before the stream begins
    async with event_stream(request) as response:
        await _follow(request, response, query, cursor, store, sessions)
    return response


async def _follow(
    request: ApiRequest,
    response: web.StreamResponse,
    query: EventsQuery,
    cursor: int,
    store: Reads,
    sessions: Sessions,
) -> None:
    while not request.context.is_over():
        last = store.last_seq
        read = await store.events(
            sessions=await _scope(request, query, sessions),
            type=query.type,
            since=cursor,
            limit=_READ_AT_ONCE,
        )
        # An event that was recorded during the read may be of a new child. The next round reads it.
        batch = [event for event in read if event.seq <= last]
        for event in batch:
            view = orjson.dumps(request.views.event(event))
            await response.write(b"id: %d\ndata: %b\n\n" % (event.seq, view))
        cursor = max(cursor, batch[-1].seq if len(batch) == _READ_AT_ONCE else last)
        came = await request.wait_until(
            lambda: store.last_seq > cursor,  # noqa: B023 - awaited in this round
            HEARTBEAT_S,
        )
        if not came:
            await response.write(HEARTBEAT)
