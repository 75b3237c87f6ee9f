"""The page of `sm web` with the rows and requests that a test makes up: many sessions cost no processes."""

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from playwright.sync_api import Browser, BrowserContext

from sm.client.live_stream import Json
from sm.wire import PROTOCOL, PROTOCOL_HEADER
from tests.board.samples import AT, update
from tests.browser import DESKTOP, Contexts, Tab, shared_chromium
from tests.web.served_app import own_port, served_app

_HEADERS = {PROTOCOL_HEADER: str(PROTOCOL)}
_ENDED = web.AppKey("ended", asyncio.Event)
"""Ends the streams, for which the end of a server would wait."""


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
            await request.app[_ENDED].wait()
        return stream


@contextlib.asynccontextmanager
async def _served(daemon: PlayedDaemon | None, home: Path, port: socket.socket) -> AsyncIterator[str]:
    app = web.Application()
    app[_ENDED] = asyncio.Event()
    if daemon is not None:
        app.router.add_route("*", "/{path:.*}", daemon.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    if daemon is not None:
        await web.UnixSite(runner, str(home / "sm.sock")).start()
    try:
        async with served_app(home, socket_of=port.dup) as served:
            yield f"{served.origin}/#{served.code()}"
    finally:
        app[_ENDED].set()
        await runner.cleanup()


@contextlib.contextmanager
def _served_page(daemon: PlayedDaemon | None, port: socket.socket) -> Iterator[str]:
    """The link of a page, served in a thread, because the browser of a test blocks its own."""
    ready, loops, links = threading.Event(), list[asyncio.AbstractEventLoop](), list[str]()
    ended = asyncio.Event()

    async def serve(home: Path) -> None:
        async with _served(daemon, home, port) as link:
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


class PageVisit:
    """A context of a browser at a page of a played daemon. A new tab of it keeps the login and the settings."""

    def __init__(self, context: BrowserContext, link: str) -> None:
        self.context = context
        self._link = link

    def tab(self, size: tuple[int, int] = DESKTOP, place: str = "") -> Tab:
        tab = Tab(self.context, self._link)
        tab.page.set_viewport_size({"width": size[0], "height": size[1]})
        self._link = self._link.partition("#")[0]
        tab.is_in_phase("live")
        if place:
            tab.open(place)
        return tab


class PlayedPages:
    """Opens pages of played daemons. Each daemon has an address that an earlier one had, whose scripts are known."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._contexts = Contexts(browser)
        self._free_ports: list[socket.socket] = []
        self._ports = contextlib.ExitStack()

    def close(self) -> None:
        self._ports.close()

    @contextlib.contextmanager
    def visit(self, daemon: PlayedDaemon | None, **options: Any) -> Iterator[PageVisit]:
        """Visit the page of a daemon, or a page without a daemon. `options`: of the context of the browser."""
        # The port stays open, so that no other program gets it.
        port = self._free_ports.pop() if self._free_ports else self._ports.enter_context(own_port())
        with (
            _served_page(daemon, port) as link,
            self._contexts.context(link.partition("/#")[0], **options) as context,
        ):
            yield PageVisit(context, link)
        self._free_ports.append(port)


@contextlib.contextmanager
def played_pages() -> Iterator[PlayedPages]:
    with shared_chromium.use() as browser, contextlib.closing(PlayedPages(browser)) as pages:
        yield pages
