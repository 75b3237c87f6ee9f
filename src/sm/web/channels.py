"""Follows the screens and the conversations of sessions, each once for all tabs that look."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from sm.client.http import DaemonAway, session_path
from sm.core.backoff import Backoff
from sm.errors import LimitReached, SmError
from sm.web.daemon_link import DaemonLink

Kind = Literal["screen", "tail"]
_TAIL_EVERY_S = 1.0
_TAIL_LINES = 200
_SEEN = {"seen": "1"}
"""A person looks at what is followed."""
_TIMEOUT_S = 20.0
_CHANNELS_MAX = 64


class Channel:
    """The newest state of one session's screen or conversation. `number` changes with it."""

    def __init__(self) -> None:
        self.number = 0
        self.rows: dict[int, Sequence[Sequence[str]]] = {}
        """The runs `[text, style]` of each row of a screen."""
        self.height = 0
        self.actions: Sequence[Mapping[str, Any]] = ()
        self.is_over = False
        self.trouble = ""
        """The reason why nothing new can be read."""
        self.lookers: set[Callable[[], None]] = set()
        """Called after each change."""

    def change(self) -> None:
        self.number += 1
        for look in tuple(self.lookers):
            look()


class Channels:
    def __init__(self, link: DaemonLink) -> None:
        self._link = link
        self._open: dict[tuple[Kind, str], tuple[Channel, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def looking(
        self, kind: Kind, session_id: str, changed: Callable[[], None]
    ) -> AsyncIterator[Channel]:
        """Follow while the context is open; `changed` is called after each change. Raises LimitReached."""
        key = kind, session_id
        if key not in self._open:
            if len(self._open) >= _CHANNELS_MAX:
                raise LimitReached("too many screens and conversations are open", "close some of them")
            channel = Channel()
            follow = self._follow_screen if kind == "screen" else self._follow_tail
            self._open[key] = channel, asyncio.create_task(_retried(follow, session_id, channel))
        channel, task = self._open[key]
        channel.lookers.add(changed)
        try:
            yield channel
        finally:
            channel.lookers.discard(changed)
            if not channel.lookers and self._open.get(key) == (channel, task):
                del self._open[key]
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _follow_screen(self, session_id: str, channel: Channel) -> None:
        async for update in self._link.events(session_path(session_id, "/screen/stream"), _SEEN):
            channel.height, channel.is_over, channel.trouble = update["height"], update["over"], ""
            channel.rows |= {row["row"]: row["runs"] for row in update["rows"]}
            for number in [number for number in channel.rows if number >= channel.height]:
                del channel.rows[number]
            channel.change()
        channel.is_over = True

    async def _follow_tail(self, session_id: str, channel: Channel) -> None:
        path = session_path(session_id, "/actions")
        while True:
            actions = await self._link.get(path, {"lines": str(_TAIL_LINES), **_SEEN}, timeout_s=_TIMEOUT_S)
            if actions != channel.actions or channel.trouble:
                channel.actions, channel.trouble = actions, ""
                channel.change()
            await asyncio.sleep(_TAIL_EVERY_S)


async def _retried(follow: Callable[[str, Channel], Any], session_id: str, channel: Channel) -> None:
    """Follow until the end; again while the daemon is away. Another refusal is shown, and ends it."""
    backoff = Backoff(0.2, 2.0)
    while not channel.is_over:
        try:
            await follow(session_id, channel)
            backoff.reset()
        except SmError as error:
            channel.trouble = error.message
            channel.is_over = not isinstance(error, DaemonAway)
            channel.change()
        if not channel.is_over:
            await asyncio.sleep(backoff.next_s())
    channel.change()
