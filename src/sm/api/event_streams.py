"""Streams of server-sent events, which end with the caller, its connection or the daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from sm.api.context import ApiRequest
from sm.errors import Unauthenticated
from sm.wire import PROTOCOL, PROTOCOL_HEADER

STREAMS = web.AppKey("streams", set[asyncio.Task[Any]])
HEARTBEAT = b": heartbeat\n\n"


@asynccontextmanager
async def event_stream(request: ApiRequest) -> AsyncIterator[web.StreamResponse]:
    """Begin the answer of a stream; the block writes the events. A caller whose process has ended ends the block."""
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            PROTOCOL_HEADER: str(PROTOCOL),
        }
    )
    with request.context.following():
        await response.prepare(request.http)
        task = asyncio.current_task()
        assert task is not None
        streams = request.http.app[STREAMS]
        streams.add(task)
        try:
            yield response
        except Unauthenticated:
            pass
        finally:
            streams.discard(task)


async def end_streams(app: web.Application) -> None:
    """Cancel all streams, so that a stopping daemon does not wait. Clients reconnect and resume at their cursors."""
    for task in app[STREAMS]:
        task.cancel()
