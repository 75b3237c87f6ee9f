"""The threads that read what `sm top` shows."""

import socket
import threading
from pathlib import Path

from sm.client.http import Client
from sm.feed import Feed
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
