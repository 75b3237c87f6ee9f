"""The parts of a simulated day: agents that report all the time, and the views of a person on what they do."""

import asyncio
import contextlib
import random
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import closing
from typing import Any

import aiohttp

from sm.board import Board, NeedKind, board_row
from sm.board.needs_list import NeedsList
from sm.cli.tui.source import ThreadedSource
from sm.client import live_stream
from sm.client.http import Client, new_key, session_path
from sm.feed import Feed, FeedNews, Situation
from sm.web.frames import row_fields
from tests.instance import Instance
from tests.integration.hook_caller import HookCaller
from tests.waits import until_async
from tests.web_server import Browser, browser

_KEPT = 5
"""Ended agents, and archived ones, that are kept."""
Rows = Mapping[str, Mapping[str, Any]]


class Agents:
    """A constant number of live agents. The daemon has answered each request when the call returns."""

    def __init__(self, instance: Instance, count: int) -> None:
        self._instance = instance
        self._client = Client(str(instance.socket))
        self._chance = random.Random(5)
        self._hooks: dict[str, HookCaller] = {}
        self._ended: list[str] = []
        self._archived: list[str] = []
        self._number = 0
        self.asked: list[str] = []
        """Every request so far."""
        self.open: list[str] = []
        """The open requests, oldest first."""
        self.marker = self._spawn()
        """An agent that does nothing but `mark`."""
        self._live = [self._spawn() for _ in range(count - 1)]

    def end(self) -> None:
        for hook in self._hooks.values():
            hook.end()

    def mark(self, text: str) -> None:
        self._report(self.marker, "/v1/sessions/me/note", {"text": text})

    def act(self) -> None:
        """One change of one agent."""
        agent, words = self._chance.choice(self._live), f"step {self._next()}"
        acts: list[Callable[[], object]] = [
            lambda: self._report(agent, "/v1/sessions/me/note", {"text": words}),
            lambda: self._report(agent, "/v1/sessions/me/checkpoints", {"message": words}),
            lambda: self._post(session_path(agent, "/rename"), {"name": f"agent-{self._next()}"}),
            lambda: self._reparent(agent),
            lambda: self._replace(agent),
            self._put_away,
        ]
        (act,) = self._chance.choices(acts, (60, 15, 8, 8, 5, 4))
        act()

    def ask(self) -> None:
        """Let an agent ask, so that it needs the person."""
        words = {"question": f"Which colour, {self._next()}?", "options": ["red", "blue"]}
        name = self._report(self._chance.choice(self._live), "/v1/requests", words)["request_id"]
        self.asked.append(name)
        self.open.append(name)

    def answer(self) -> None:
        """Answer the oldest question."""
        self._post(f"/v1/requests/{self.open.pop(0)}/answer", {"approved": True, "answers": ["1"]})

    def _spawn(self) -> str:
        cwd, env = str(self._instance.work), dict(self._instance.env)
        body = {"agent_type": "Sleeper", "prompt": "x", "cwd": cwd, "environment": env, "wait_s": 60}
        session_id: str = self._post("/v1/sessions", body)["session_id"]
        self._hooks[session_id] = HookCaller(self._instance, session_id)
        return session_id

    def _reparent(self, agent: str) -> None:
        parent = self._chance.choice([None, self.marker])
        self._post(session_path(agent, "/reparent"), {"parent": parent})

    def _replace(self, agent: str) -> None:
        """Another agent takes the place of one that ends. Its open questions end with it."""
        self._live.remove(agent)
        self._ended.append(agent)
        self._post(session_path(agent, "/kill"), {"force": True})
        self._hooks.pop(agent).end()
        self._live.append(self._spawn())
        if len(self._ended) > _KEPT:
            self._put_away()
        still = {request["request_id"] for request in self._client.get("/v1/requests", {"limit": 1000})}
        self.open = [name for name in self.open if name in still]

    def _put_away(self) -> None:
        """Archive the oldest ended agent, and remove the oldest archived one: their number stays the same too."""
        if len(self._archived) >= _KEPT:
            self._post(session_path(self._archived.pop(0), "/remove"), {})
        if self._ended:
            agent = self._ended.pop(0)
            self._post(session_path(agent, "/archive"), {})
            self._archived.append(agent)

    def _report(self, agent: str, path: str, body: Mapping[str, object]) -> Any:
        hook = self._hooks[agent]
        hook.send(path, new_key(), body)
        word, answer = hook.receive()
        assert word == "ok", (path, body, word, answer)
        return answer

    def _post(self, path: str, body: Mapping[str, object]) -> Any:
        return self._client.post(path, body)

    def _next(self) -> int:
        self._number += 1
        return self._number


class Truth:
    """The rows at one moment, as the daemon has them now for everybody, and as they are in the database."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._client = Client(str(instance.socket))

    def rows(self) -> Rows:
        """The rows of a new reader: the daemon brings all rows up to date first."""
        rows: dict[str, Mapping[str, Any]] = {}
        for update in live_stream.updates(self._client):
            rows |= {row["session_id"]: row for row in update["rows"]}
            if not update["more"]:
                break
        return rows

    def listed(self) -> Rows:
        return {session["session_id"]: session for session in self._client.get("/v1/sessions")}

    def stored(self) -> Rows:
        """Some columns of the database's file."""
        names = ("session_id", "status", "note", "friendly_name", "parent_session_id", "status_at")
        with (
            closing(sqlite3.connect(f"file:{self._instance.state / 'sm.db'}?mode=ro", uri=True)) as database,
            database,
        ):
            found = database.execute(
                "SELECT id, status, note, friendly_name, parent_id, status_at FROM sessions WHERE NOT archived"
            ).fetchall()
        database.close()
        return {row[0]: dict(zip(names, row, strict=True)) for row in found}


class TopView:
    """The model of `sm top`, without the drawing."""

    def __init__(self, instance: Instance) -> None:
        feed = Feed(ThreadedSource(Client(str(instance.socket))), self._take)
        self.situation = Situation(feed.ask)
        self.board = Board(self.situation.table)
        self.needs = NeedsList()
        self.told: Counter[str] = Counter()
        """How often each entry was announced."""
        self._following = asyncio.create_task(feed.run())

    async def end(self) -> None:
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def until(self, condition: Callable[[], object]) -> None:
        async def look() -> bool:
            if self._following.done():
                self._following.result()
            return bool(condition())

        await until_async(look, "the view has it")

    def note_of(self, session_id: str) -> str | None:
        row = self.situation.table.rows.get(session_id)
        return None if row is None else row.data["note"]

    def open_requests(self) -> set[str]:
        return {need.key for need in self.situation.found if need.kind is NeedKind.REQUEST}

    def wrong(self, rows: Rows, ids: Collection[str]) -> list[str]:
        """The ids of rows that differ, and of lines that are missing or too many."""
        shown = {row_id: row.data for row_id, row in self.situation.table.rows.items()}
        lines = {line.row.id: line.row.data for line in self.board.lines if not line.gone}
        return sorted(i for i in ids if not shown.get(i) == lines.get(i) == rows.get(i))

    def _take(self, news: FeedNews) -> None:
        clock_s = time.monotonic()
        if (change := self.situation.take(news, clock_s)) is not None:
            self.board.take(change)
        self.board.refresh(clock_s, rests=True)
        if self.situation.mail is not None:
            self.situation.find_needs(clock_s)
            self.told.update(need.key for need in self.needs.update(self.situation.found, clock_s).new)


class WebView:
    """A tab of a browser that is not drawn. It reads all the time, as a browser does, which also answers pings."""

    def __init__(self, tab: Browser) -> None:
        self._tab = tab
        self._known = self._keys()
        self.told: Counter[str] = Counter()
        """How often each entry appeared after the first frame."""
        self._reading = asyncio.create_task(self._read())

    async def end(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def until(self, condition: Callable[[], object]) -> None:
        async def look() -> bool:
            if self._reading.done():
                self._reading.result()
            return bool(condition())

        await until_async(look, "the view has it")

    async def _read(self) -> None:
        while True:
            await self._tab.receive()
            keys = self._keys()
            self.told.update(keys - self._known)
            self._known = keys

    def note_of(self, session_id: str) -> str | None:
        row = self._tab.rows.get(session_id)
        return None if row is None else row["task"]

    def open_requests(self) -> set[str]:
        return {need["key"] for need in self._tab.board["needs"] if need["kind"] == "request"}

    def wrong(self, rows: Rows, ids: Collection[str]) -> list[str]:
        lines = {line[0] for line in self._tab.layout}
        found = []
        for session_id in ids:
            row = rows.get(session_id)
            fields = None if row is None else row_fields(board_row(row))
            shown = self._tab.rows.get(session_id)
            if shown != fields or (session_id in lines) != (fields is not None):
                found.append(session_id)
        return sorted(found)

    def _keys(self) -> set[str]:
        return {need["key"] for need in self._tab.board.get("needs", ())}


View = TopView | WebView


@contextlib.asynccontextmanager
async def web_view(http: aiohttp.ClientSession, origin: str, token: str) -> AsyncIterator[WebView]:
    async with browser(http, origin, token) as tab:
        view = WebView(tab)
        try:
            yield view
        finally:
            await view.end()
