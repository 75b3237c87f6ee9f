"""The routes of events: recorded events, and a stream of new events."""

import orjson
from aiohttp import web

from sm.api.context import ApiRequest
from sm.api.event_streams import HEARTBEAT, event_stream
from sm.api.operation_routes import OperationTable
from sm.operations import event_operations as operations
from sm.operations.event_operations import EventsScope, RecordedScope
from sm.services import Reads, Sessions
from sm.wire import HEARTBEAT_S
from sm.wire_types.event_answers import EventsView

_READ_AT_ONCE = 500

routes = OperationTable()


async def _scope(request: ApiRequest, query: EventsScope, sessions: Sessions) -> list[str] | None:
    return await sessions.event_scope(
        request.caller, query.session, query.workspace, recursive=query.recursive
    )


@routes.carries_out(operations.SHOW_EVENTS)
async def events(
    request: ApiRequest, query: RecordedScope, *, store: Reads, sessions: Sessions
) -> EventsView:
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


@routes.carries_out(operations.FOLLOW_EVENTS)
async def follow_events(
    request: ApiRequest, query: EventsScope, *, store: Reads, sessions: Sessions
) -> web.StreamResponse:
    cursor = store.last_seq if query.since is None else query.since
    await _scope(request, query, sessions)  # to refuse before the stream begins
    async with event_stream(request) as response:
        await _follow(request, response, query, cursor, store, sessions)
    return response


async def _follow(
    request: ApiRequest,
    response: web.StreamResponse,
    query: EventsScope,
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
