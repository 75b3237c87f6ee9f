"""Reads what a live view shows from the daemon, in threads of its own, and reconnects when the daemon is gone."""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sm.client import live
from sm.client.http import Client, DaemonAway
from sm.client.live import Json
from sm.core.backoff import Backoff
from sm.errors import SmError

_MAIL_EVERY_S = 5.0
_FULL_EVERY_S = 30.0
_PAUSE_S = 0.25
_QUEUED_MAX = 64
_END_WITHIN_S = 1.0
_MESSAGES = 100
_REQUESTS = 1000


@dataclass(frozen=True, slots=True)
class Mail:
    """The news besides the rows: requests, messages, the overview and the workspaces."""

    requests: Sequence[Mapping[str, Any]] = ()
    messages: Sequence[Mapping[str, Any]] = ()
    overview: Mapping[str, Any] = field(default_factory=dict)
    workspaces: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MailFailure:
    """The daemon answered with an error: the last `Mail` may be out of date."""

    reason: str


@dataclass(frozen=True, slots=True)
class Outage:
    """The stream of rows has ended."""

    reason: str


FeedNews = Json | Mail | MailFailure | Outage


class Feed:
    """Calls `on_news` in one of its threads whenever `take` has something new.

    The queue is short: while the view is suspended, the daemon keeps the newest state of each row for it.
    `archived`: follow archived sessions too. `only_rows`: read nothing besides the rows.
    """

    def __init__(
        self,
        client: Client,
        on_news: Callable[[], object],
        *,
        archived: bool = False,
        only_rows: bool = False,
    ) -> None:
        self._client = client
        self._on_news = on_news
        self._news: queue.Queue[FeedNews] = queue.Queue(_QUEUED_MAX)
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._archived = archived
        self._pipe = threading.Lock()
        """Held to change the pipe."""
        self._spent_fds = list[int]()
        """Write ends of earlier pipes, which only the thread that may use them closes."""
        # The stream ends when the read end of this pipe is closed: it may be silent for a long time.
        self._end, self._reader_fd = os.pipe()
        self._follower = threading.Thread(target=self._follow, name="feed: rows", daemon=True)
        self._threads = [self._follower]
        if not only_rows:
            self._threads.append(threading.Thread(target=self._poll, name="feed: requests", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End the threads. One that waits for a daemon that hangs ends later, without news. Idempotent."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._asked.set()
        with self._pipe:
            os.close(self._end)
        until_s = time.monotonic() + _END_WITHIN_S
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < until_s:
            self.take()  # a thread may wait for room in the queue
            for thread in self._threads:
                thread.join(0.01)
        self.take()
        if not self._follower.is_alive():  # it waits for the pipe
            os.close(self._reader_fd)

    def show_archived(self, archived: bool) -> None:
        """Read all rows again, with or without those of archived sessions."""
        with self._pipe:
            if self._ended.is_set():
                return
            self._archived = archived
            os.close(self._end)
            self._spent_fds.append(self._reader_fd)
            self._end, self._reader_fd = os.pipe()

    def ask(self) -> None:
        """Read requests and messages again now."""
        self._asked.set()

    def take(self) -> list[FeedNews]:
        news = list[FeedNews]()
        while True:
            try:
                news.append(self._news.get_nowait())
            except queue.Empty:
                return news

    def _put(self, news: FeedNews) -> None:
        self._news.put(news)
        if not self._ended.is_set():
            self._on_news()

    def _follow(self) -> None:
        revision: str | None = None
        backoff = Backoff(0.1, 2.0)
        while not self._ended.is_set():
            with self._pipe:
                archived, reader_fd = self._archived, self._reader_fd
                while self._spent_fds:
                    os.close(self._spent_fds.pop())
                    revision = None  # of other rows
            try:
                for update in live.updates(
                    self._client, since=revision, archived=archived, reader_fd=reader_fd
                ):
                    backoff.reset()
                    if update["snapshot"]:
                        revision = None  # half a snapshot is no base for later changes
                    revision = update["revision"] or revision
                    self._put(update)
                    if self._ended.is_set():
                        return
            except BrokenPipeError:
                continue
            except (SmError, OSError) as error:
                self._put(Outage(error.message if isinstance(error, SmError) else str(error)))
            self._ended.wait(backoff.next_s())

    def _poll(self) -> None:
        get, mail, full_s = self._client.get, Mail(), -_FULL_EVERY_S
        while not self._ended.is_set():
            begin_s = time.monotonic()
            is_asked = self._asked.is_set()
            self._asked.clear()
            try:
                # The rows tell when requests change, so these are read rarely without that.
                if is_asked or begin_s - full_s >= _FULL_EVERY_S:
                    requests = get("/v1/requests", {"limit": _REQUESTS})
                    workspaces = [workspace["slug"] for workspace in get("/v1/workspaces")]
                    mail, full_s = replace(mail, requests=requests, workspaces=workspaces), begin_s
                messages = get("/v1/messages", {"limit": _MESSAGES})
                mail = replace(mail, messages=messages, overview=get("/v1/status"))
            except SmError as error:
                full_s = -_FULL_EVERY_S
                if not isinstance(error, DaemonAway):  # else the stream tells
                    self._put(MailFailure(error.message))
            else:
                self._put(mail)
            self._ended.wait(_PAUSE_S)  # many rows may change at the same time
            self._asked.wait(_MAIL_EVERY_S)
