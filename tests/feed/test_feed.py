"""The threads that read what `sm top` shows."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client, DaemonAway
from sm.feed import Feed
from sm.feed import feed as feed_module
from tests.waits import until


def test_feed_ends_while_the_daemon_does_not_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "sm.sock")
    before = {*threading.enumerate()}
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(path)
        hung.listen(8)
        feed = Feed(Client(path), lambda: None)
        feed.start()
        callers = [hung.accept()[0] for _ in range(2)]
        feed.end()
        left = {*threading.enumerate()} - before
        assert [thread.name for thread in left] == ["feed: requests"]
        feed.end()
        for caller in callers:
            caller.close()
        until(lambda: not left & {*threading.enumerate()}, "the end of the thread")


class ScriptedClient(Client):
    """Answers for a daemon without sessions."""

    def __init__(self, workspaces: list[str]) -> None:
        super().__init__("/nonexistent")
        self.workspaces = workspaces

    def get(self, path: str, *_: Any, **__: Any) -> Any:
        if path == "/v1/workspaces":
            return [{"slug": slug} for slug in self.workspaces]
        if path in ("/v1/requests", "/v1/messages"):
            return []
        if path == "/v1/status":
            return {}
        raise DaemonAway("no rows")


def test_feed_reads_the_workspaces_again_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FULL_EVERY_S", "_MAIL_EVERY_S", "_PAUSE_S"):
        monkeypatch.setattr(feed_module, name, 0.001)
    client, told = ScriptedClient([]), list[tuple[str, ...]]()
    feed = Feed(client, lambda: None)
    feed.start()

    def knows(*slugs: str) -> bool:
        told.extend(tuple(news.workspaces) for news in feed.take() if isinstance(news, feed_module.Mail))
        return bool(told) and told[-1] == slugs

    until(lambda: knows(), "the first answer")
    client.workspaces = ["shop"]
    until(lambda: knows("shop"), "the new workspace")
    feed.end()
