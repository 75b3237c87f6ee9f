"""A hub without a daemon, which a test tells the news."""

import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import orjson

from sm.client.live_stream import Json
from sm.feed import FeedNews, Mail
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import WebLogin, WebScope
from sm.web.tab import Tab
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


__all__ = ["Page", "board_hub", "board_of", "login", "row_data", "tell", "update"]
