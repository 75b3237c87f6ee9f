"""A hub without a daemon, which a test tells the news."""

import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from sm.client.live_stream import Json
from sm.feed import FeedNews, Mail
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import WebLogin, WebScope
from sm.web.tab import Tab
from sm.wire import PROTOCOL, PROTOCOL_HEADER
from tests.board.samples import row_data, update
from tests.web_server import merge


def login(scope: WebScope = WebScope.ALL, name: str = "phone") -> WebLogin:
    return WebLogin(name, scope, "0" * 64, 0.0, 0.0)


@contextlib.asynccontextmanager
async def board_hub(tmp_path: Path) -> AsyncIterator[Hub]:
    link = DaemonLink(str(tmp_path / "sm.sock"))
    try:
        yield Hub(link)
    finally:
        await link.close()


@contextlib.asynccontextmanager
async def answering_daemon(
    tmp_path: Path,
    answers: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
    bodies: list[Any] | None = None,
) -> AsyncIterator[list[str]]:
    """A daemon of `board_hub` with these answers, by path: 404 for others. Yields the paths that were asked for.

    A path with a query is only for requests with exactly that query. None as an answer is a 404 too.
    `more`: further headers of each answer. `bodies`: gets the body of each POST.
    """
    asked = list[str]()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if bodies is not None and request.method == "POST":
            bodies.append(await request.json())
        found = answers.get(request.path_qs if request.path_qs in answers else request.path)
        error = {"error": {"code": "not_found", "message": "no such session", "hint": None}}
        body, status = (error, 404) if found is None else (found, 200)
        return web.json_response(
            body, status=status, headers={PROTOCOL_HEADER: str(PROTOCOL), **(more or {})}
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "sm.sock")).start()
    try:
        yield asked
    finally:
        await runner.cleanup()


def unlisted(session_id: str) -> dict[str, Any]:
    """The answers of a daemon about a session that ended long ago, by path."""
    row = row_data(session_id, status="completed", exit_code=0, pid=None, completion_message="it works")
    path, used = f"/v1/sessions/{session_id}", {**row, "current_activity": None, "todo": None}
    return {path: {**row, "children_by_status": {"error": 1, "completed": 2}}, f"{path}/progress": used}


def tell(hub: Hub, *news: FeedNews) -> None:
    hub.take(news, time.monotonic())


def board_of(
    hub: Hub, rows: Iterable[Json], *requests: dict[str, Any], workspaces: Iterable[str] = ()
) -> None:
    tell(hub, update(rows, snapshot=True), Mail(requests=requests, workspaces=tuple(workspaces)))


class Page:
    """The state that a page keeps of the frames of a tab."""

    def __init__(self, hub: Hub, scope: WebScope = WebScope.ALL) -> None:
        self.tab = Tab(hub, login(scope))
        self.state: dict[str, Any] = {}
        self.frames = 0
        hub.add(self.tab)

    def read(self, clock_s: float | None = None) -> dict[str, Any]:
        """Take the frames that are due."""
        for frame in self.tab.frames(time.monotonic() if clock_s is None else clock_s):
            self.frames += 1
            merge(self.state, orjson.loads(frame))
        return self.state


__all__ = [
    "Page",
    "answering_daemon",
    "board_hub",
    "board_of",
    "login",
    "row_data",
    "tell",
    "unlisted",
    "update",
]
