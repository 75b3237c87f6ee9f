"""The page of `sm web` with the rows and requests that a test makes up: many sessions cost no processes."""

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from sm.client.live_stream import Json
from sm.wire import PROTOCOL, PROTOCOL_HEADER
from tests.board.samples import AT, update
from tests.web.served_app import served_app

_HEADERS = {PROTOCOL_HEADER: str(PROTOCOL)}


@dataclass(frozen=True, slots=True)
class PlayedDaemon:
    """The answers of a daemon. Its rows never change, and it refuses all actions."""

    rows: Sequence[Json] = ()
    requests: Sequence[dict[str, Any]] = ()
    workspaces: Sequence[str] = ()
    choices: Mapping[str, Any] | None = None
    """The answer to `GET /v1/spawn-choices`."""
    at: str = AT
    """Its time."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further answers by path. A list of events is filtered by the asked type."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer what the page asks for, and 404 for all else."""
        if request.path == "/v1/live":
            return await self._stream(request)
        answers: dict[str, Any] = {
            "/v1/requests": self.requests,
            "/v1/messages": [],
            "/v1/status": {"trouble": [], "dead_letters": 0},
            "/v1/workspaces": [{"slug": slug} for slug in self.workspaces],
            "/v1/usage": {"buckets": [], "totals": {}},
            "/v1/events": {"events": [], "next": None},
            "/v1/sessions": [],
            "/v1/spawn-choices": self.choices,
            **self.more,
        }
        missing = {"error": {"code": "not_found", "message": "no such session", "hint": None}}
        found = answers.get(request.path) if request.method == "GET" else None
        if found is not None and request.path == "/v1/events" and (kind := request.query.get("type")):
            found = {**found, "events": [event for event in found["events"] if event["type"] == kind]}
        return web.json_response(
            missing if found is None else found, status=404 * (found is None) or 200, headers=_HEADERS
        )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await stream.write(b"data: " + orjson.dumps(update(self.rows, snapshot=True, at=self.at)) + b"\n\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.Event().wait()  # until the server ends
        return stream


@contextlib.asynccontextmanager
async def _served(daemon: PlayedDaemon | None, home: Path) -> AsyncIterator[str]:
    app = web.Application()
    if daemon is not None:
        app.router.add_route("*", "/{path:.*}", daemon.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    if daemon is not None:
        await web.UnixSite(runner, str(home / "sm.sock")).start()
    try:
        async with served_app(home) as served:
            yield f"{served.origin}/#{served.code()}"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def played_page(daemon: PlayedDaemon | None) -> Iterator[str]:
    """The link of a page, served in a thread, because the browser of a test blocks its own.

    Without `daemon` the page has no daemon.
    """
    ready, loops, links = threading.Event(), list[asyncio.AbstractEventLoop](), list[str]()
    ended = asyncio.Event()

    async def serve(home: Path) -> None:
        async with _served(daemon, home) as link:
            loops.append(asyncio.get_running_loop())
            links.append(link)
            ready.set()
            await ended.wait()

    def run(home: Path) -> None:
        try:
            asyncio.run(serve(home))
        finally:
            ready.set()

    with tempfile.TemporaryDirectory() as home:
        thread = threading.Thread(target=run, args=(Path(home),))
        thread.start()
        ready.wait()
        try:
            yield links[0]
        finally:
            loops[0].call_soon_threadsafe(ended.set)
            thread.join()
