"""The routes of events: recorded events, and a stream of new events."""

import asyncio
from typing import Any

import orjson
from aiohttp import web

from sm.api.answers.events import EventsView
from sm.api.context import ApiRequest
from sm.api.query import LISTED, EventsQuery, Limit
from sm.api.route import RouteTable
from sm.errors import Unauthenticated
from sm.wire import HEARTBEAT_S, PROTOCOL, PROTOCOL_HEADER

_READ_AT_ONCE = 500
STREAMS = web.AppKey("streams", set[asyncio.Task[Any]])
routes = RouteTable()


class RecordedQuery(EventsQuery):
    limit: Limit = LISTED


def _scope(request: ApiRequest, query: EventsQuery) -> list[str] | None:
    return request.services.sessions.event_scope(
        request.caller, query.session, query.workspace, recursive=query.recursive
    )


@routes.route("GET", "/v1/events", agents=True)
async def events(request: ApiRequest, query: RecordedQuery) -> EventsView:
    """List the newest events, oldest first; with `since` the first events after it."""
    store = request.services.store
    last = store.last_seq
    read = await store.events(
        sessions=_scope(request, query), type=query.type, since=query.since, limit=query.limit
    )
    # An event that was recorded during the read may be of a new child, which is not in the scope of the read.
    views = [request.views.event(e) for e in read if e.seq <= last]
    return {"events": views, "last_seq": last}


@routes.route("GET", "/v1/events/stream", agents=True, audit="stream")
async def follow_events(request: ApiRequest, query: EventsQuery) -> web.StreamResponse:
    """Stream new events; with `since` all events after it.

    A comment line comes every 15 s, so that a longer silence means that the daemon is gone.
    """
    cursor = request.services.store.last_seq if query.since is None else query.since
    _scope(request, query)  # to refuse before the stream begins
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            PROTOCOL_HEADER: str(PROTOCOL),
        }
    )
    with request.context.following():
        await _follow(request, response, query, cursor)
    return response


async def _follow(request: ApiRequest, response: web.StreamResponse, query: EventsQuery, cursor: int) -> None:
    store = request.services.store
    await response.prepare(request.http)
    task = asyncio.current_task()
    assert task is not None
    streams = request.http.app[STREAMS]
    streams.add(task)
    try:
        while not request.context.is_over():
            last = store.last_seq
            read = await store.events(
                sessions=_scope(request, query), type=query.type, since=cursor, limit=_READ_AT_ONCE
            )
            # An event that was recorded during the read may be of a new child. The next round reads it.
            batch = [event for event in read if event.seq <= last]
            for event in batch:
                view = orjson.dumps(request.views.event(event))
                await response.write(b"id: %d\ndata: %b\n\n" % (event.seq, view))
            cursor = max(cursor, batch[-1].seq if len(batch) == _READ_AT_ONCE else last)
            try:
                came = await request.wait_until(
                    lambda: store.last_seq > cursor,  # noqa: B023 - awaited in this round
                    HEARTBEAT_S,
                )
            except Unauthenticated:
                return
            if not came:
                await response.write(b": heartbeat\n\n")
    finally:
        streams.discard(task)


async def end_streams(app: web.Application) -> None:
    """Cancel all streams, so that a stopping daemon does not wait. Clients reconnect and resume at their cursors."""
    for task in app[STREAMS]:
        task.cancel()
