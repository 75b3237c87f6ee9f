"""Reads what a live view shows from the daemon, in the event loop of the view, and reconnects after an outage."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import field, replace
from typing import Any, Protocol, cast

from sm.client.http import DaemonAway, session_path
from sm.client.live_stream import Json
from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.statuses import Status
from sm.core.task_kinds import TaskKind
from sm.errors import NotFound, SmError

log = logging.getLogger(__name__)

_MAIL_EVERY_S = 5.0
_FULL_EVERY_S = 30.0
_AGAIN_S = 30.0
"""How long after rows that the view cannot show all rows are read again."""
_PAUSE_S = 0.25
_MESSAGES = "100"
_REQUESTS = "1000"


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


@dataclass(frozen=True, slots=True)
class Unshown:
    """The view cannot show news, so what it shows may be out of date."""

    news: "FeedNews"
    reason: str


FeedNews = Json | Mail | MailFailure | Outage | Unshown
Get = Callable[[str, Mapping[str, str] | None], Awaitable[Any]]
"""The call `FeedSource.get` of a source."""


class FeedSource(Protocol):
    """Reads from the daemon. Both calls raise its refusals as the errors of errors.py, and end when cancelled."""

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The decoded answer. Raises DaemonAway without a daemon."""
        ...

    def events(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Any]:
        """Yield the decoded data of server-sent events. Raises DaemonAway when the stream breaks."""
        ...


async def read_row(get: Get, session_id: str) -> Json:
    """Read a session that has no row in `/v1/live`, such as one that ended long ago, as such a row. Raises SmError."""
    from sm.core.attention import FAILURES  # with the models of the daemon, which a view hardly needs

    path = session_path(session_id)
    session = await get(path, None)
    if session["session_id"] != session_id:
        raise NotFound(f"no such session: {session_id}")
    used = await get(f"{path}/progress", {"tree": "1", "checkpoints": "1"})
    counts, todo = session["children_by_status"], used["todo"]
    measured = {name: used[name] for name in ("tokens", "cost_usd", "context_percent", "last_tool", "tree")}
    result = session["completion_message"]
    row = {
        **session,
        "task": result or session["status_reason"],
        "task_kind": TaskKind.RESULT if result else TaskKind.REASON,
        **measured,
        "children_failed": sum(counts.get(status, 0) for status in FAILURES),
        "children_done": counts.get(Status.COMPLETED, 0),
        "activity": used["current_activity"],
        "todo_done": todo and sum(entry["status"] == "completed" for entry in todo),
        "todo_total": todo and len(todo),
        "open_requests": [],
        "messages_held": 0,
    }
    return cast(Json, row)


def live_request(*, archived: bool) -> tuple[str, Mapping[str, str]]:
    """The path and the query of all rows. `archived`: also those of archived sessions."""
    return "/v1/live", {"archived": "1"} if archived else {}


class Feed:
    """Calls `on_news` with each piece of news. A view that does not take it gets newer states later: nothing is queued.

    `archived`: follow archived sessions too.
    """

    def __init__(
        self, source: FeedSource, on_news: Callable[[FeedNews], object], *, archived: bool = False
    ) -> None:
        self._source = source
        self._on_news = on_news
        self._asked = asyncio.Event()
        self._archived = archived
        self._stream: asyncio.Timeout | None = None
        """Expires to end the stream of rows."""

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._poll())

    def show_archived(self, archived: bool) -> None:
        """Read all rows again, with or without those of archived sessions."""
        if archived != self._archived:
            self._archived = archived
            if self._stream is not None:
                with suppress(RuntimeError):  # the stream has ended
                    self._stream.reschedule(0.0)

    def ask(self) -> None:
        """Read requests and messages again now."""
        self._asked.set()

    def _tell(self, news: FeedNews) -> bool:
        """Give the news to the view, and return whether it can show them.

        News that it cannot show, such as of another version, must not end the feed.
        """
        try:
            self._on_news(news)
        except Exception as error:
            log.exception("cannot show news of the daemon")
            self._on_news(Unshown(news, f"{type(error).__name__}: {error}"))
            return False
        return True

    async def _follow(self) -> None:
        backoff, revision, archived = Backoff(0.1, 2.0), "", self._archived
        while True:
            if archived != self._archived:
                archived, revision = self._archived, ""  # that was of other rows
            is_shown, loop = True, asyncio.get_running_loop()
            path, query = live_request(archived=self._archived)
            query = {**query, "since": revision} if revision else query
            try:
                async with (
                    asyncio.timeout(None) as self._stream,
                    aclosing(self._source.events(path, query)) as updates,
                ):
                    async for update in updates:
                        backoff.reset()
                        if update["snapshot"]:
                            revision = ""  # half a snapshot is no base for later changes
                        is_shown = self._tell(update) and is_shown
                        # What the view lacks is not known: it needs all rows again.
                        revision = (update["revision"] or revision) if is_shown else ""
                        if not is_shown and self._stream.when() is None:
                            self._stream.reschedule(loop.time() + _AGAIN_S)
                self._tell(Outage("the daemon closed the event stream"))
            except TimeoutError:
                continue  # other rows are wanted
            except SmError as error:
                self._tell(Outage(error.message))
            await asyncio.sleep(backoff.next_s())

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        mail, full_s = Mail(), -_FULL_EVERY_S
        while True:
            begin_s = loop.time()
            is_asked = self._asked.is_set()
            self._asked.clear()
            try:
                # The rows tell when requests change, so these are read rarely without that.
                if is_asked or begin_s - full_s >= _FULL_EVERY_S:
                    mail, full_s = await self._full(mail), begin_s
                messages = await self._source.get("/v1/messages", {"limit": _MESSAGES})
                mail = replace(mail, messages=messages, overview=await self._source.get("/v1/status"))
            except SmError as error:
                full_s = -_FULL_EVERY_S
                if not isinstance(error, DaemonAway):  # else the stream tells
                    self._tell(MailFailure(error.message))
            else:
                self._tell(mail)
            await asyncio.sleep(_PAUSE_S)  # many rows may change at the same time
            with suppress(TimeoutError):
                async with asyncio.timeout(_MAIL_EVERY_S):
                    await self._asked.wait()

    async def _full(self, mail: Mail) -> Mail:
        requests = await self._source.get("/v1/requests", {"limit": _REQUESTS})
        workspaces = [workspace["slug"] for workspace in await self._source.get("/v1/workspaces")]
        return replace(mail, requests=requests, workspaces=workspaces)
