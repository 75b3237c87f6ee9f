"""The feed of live views: its news in the event loop, from a scripted daemon or one that hangs."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sm.cli.tui.source import ThreadedSource
from sm.client.http import Client, DaemonAway
from sm.feed import Feed, FeedNews, FeedSource, Mail, Outage, Situation, Unshown
from sm.feed import feed as feed_module
from sm.web.daemon_link import DaemonLink
from tests.board.samples import row_data, update
from tests.cli.samples import request
from tests.waits import until, until_async


def news_of(source: FeedSource) -> tuple[Feed, list[FeedNews], "asyncio.Task[None]"]:
    """A feed that runs, its news, and its task."""
    news = list[FeedNews]()
    feed = Feed(source, news.append)
    return feed, news, asyncio.create_task(feed.run())


@pytest.mark.parametrize("is_web", [False, True])
async def test_feed_ends_while_the_daemon_does_not_answer(tmp_path: Path, is_web: bool) -> None:
    path = str(tmp_path / "sm.sock")
    before = {*threading.enumerate()}
    loop, link = asyncio.get_running_loop(), DaemonLink(path)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(path)
        hung.listen(8)
        hung.setblocking(False)
        _, news, running = news_of(link if is_web else ThreadedSource(Client(path)))
        callers = [(await loop.sock_accept(hung))[0] for _ in range(2)]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for caller in callers:
            caller.close()
    await link.close()
    until(lambda: {*threading.enumerate()} <= before, "the end of the threads")
    assert news == []


class ScriptedSource:
    """Answers for a daemon. `updates`: those of each stream of rows, which then is silent."""

    def __init__(self, *updates: list[Any]) -> None:
        self.workspaces = list[str]()
        self.queries = list[Mapping[str, str]]()
        self.updates = list(updates)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        if path == "/v1/workspaces":
            return [{"slug": slug} for slug in self.workspaces]
        return {} if path == "/v1/status" else []

    async def events(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Any]:
        self.queries.append(query)
        for each in self.updates.pop(0):
            if isinstance(each, Exception):
                raise each
            yield each
        await asyncio.Event().wait()


async def test_feed_reads_the_workspaces_again_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FULL_EVERY_S", "_MAIL_EVERY_S", "_PAUSE_S"):
        monkeypatch.setattr(feed_module, name, 0.001)
    source = ScriptedSource([])
    _, news, running = news_of(source)

    async def knows(*slugs: str) -> bool:
        return bool(news) and isinstance(news[-1], Mail) and tuple(news[-1].workspaces) == slugs

    await until_async(knows, "the first answer")
    source.workspaces = ["shop"]
    await until_async(lambda: knows("shop"), "the new workspace")
    running.cancel()


async def test_feed_goes_on_after_the_last_revision_and_tells_of_the_outage() -> None:
    first = update([row_data("a")], snapshot=True)
    source = ScriptedSource([first, DaemonAway("gone")], [update([row_data("b")])])
    _, news, running = news_of(source)

    async def has_read() -> bool:
        return len([each for each in news if not isinstance(each, Mail)]) == 3

    await until_async(has_read, "both updates and the outage")
    running.cancel()
    assert source.queries == [{}, {"since": first["revision"]}]
    assert Outage("gone") in news


async def test_feed_reads_all_rows_again_when_archived_ones_are_wanted_too() -> None:
    source = ScriptedSource([update([row_data("a")], snapshot=True)], [])
    feed, news, running = news_of(source)

    async def has(count: int) -> bool:
        return len(source.queries) == count and len([each for each in news if isinstance(each, dict)]) == 1

    await until_async(lambda: has(1), "the first stream")
    feed.show_archived(False)
    feed.show_archived(True)
    await until_async(lambda: has(2), "the second stream")
    running.cancel()
    assert source.queries[1] == {"archived": "1"}
    assert not [each for each in news if isinstance(each, Outage)]


async def test_feed_tells_what_the_view_cannot_show_and_reads_all_rows_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(feed_module, "_AGAIN_S", 0.001)
    told = list[tuple[str, Sequence[str]]]()

    def show(news: FeedNews) -> None:
        situation.take(news, 0.0)
        told.append((situation.unshown, [*situation.table.rows]))

    unknown = {**row_data("a")}
    del unknown["status"]
    first = update([row_data("b"), row_data("a")], snapshot=True)
    source = ScriptedSource([first, update([unknown]), update([row_data("c")])], [first])
    feed = Feed(source, show)
    situation = Situation(feed.ask)
    running = asyncio.create_task(feed.run())
    why = "cannot show all sessions (KeyError: 'status')"

    async def has_shown() -> bool:
        return (why, ["b", "a", "c"]) in told and told[-1][0] == ""

    await until_async(has_shown, "the later row, and then all rows")
    running.cancel()
    assert source.queries == [{}, {}], "without a revision, because the view lacks rows"
    assert "cannot show news of the daemon" in caplog.text


async def test_situation_keeps_the_last_requests_when_new_ones_cannot_be_shown() -> None:
    situation = Situation(lambda: None)
    situation.take(update([row_data("a")], snapshot=True), 0.0)
    situation.take(Mail(requests=[request(57, session_id="a")]), 0.0)
    for odd in (Mail(requests=[{"state": "open"}]), Mail(messages=[{}])):
        with pytest.raises(KeyError) as found:
            situation.take(odd, 0.0)
        situation.take(Unshown(odd, repr(found.value)), 0.0)
        situation.take(update([row_data("a")], snapshot=True), 0.0)
        situation.find_needs(0.0)
        assert [need.key for need in situation.found] == ["r57"]
        assert situation.unshown.startswith("cannot show all requests and messages (KeyError(")
    situation.take(Mail(), 0.0)
    assert situation.unshown == ""
