"""The event streams of an application, which end when the application does."""

import asyncio
from typing import Any

from aiohttp import web

STREAMS = web.AppKey("streams", set[asyncio.Task[Any]])


async def end_streams(app: web.Application) -> None:
    """Cancel all streams. Their clients reconnect and go on from their cursors; a stopping daemon does not wait."""
    for task in app[STREAMS]:
        task.cancel()
