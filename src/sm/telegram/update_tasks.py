"""Updates at work, each in a task: long work keeps neither other chats nor buttons waiting.

A text begins when all earlier updates of its chat are done. A press of a button waits for the earlier presses on its
message, and for other updates at most `PRESS_WAITS_S`, because a person waits for its effect.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from sm.core.dataclass import dataclass
from sm.telegram.updates import IncomingUpdate, UpdateKind

PRESS_WAITS_S = 1.0
"""How long a press waits for the earlier texts of its chat and for the presses on other messages."""


@dataclass(frozen=True, slots=True)
class _Work:
    update: IncomingUpdate
    task: asyncio.Task[None]


class UpdateTasks:
    """`carry_out` handles one update, also when it takes long."""

    def __init__(self, carry_out: Callable[[IncomingUpdate], Coroutine[Any, Any, None]]) -> None:
        self._carry_out = carry_out
        self._works: dict[int, _Work] = {}
        self._done: set[int] = set()
        """Updates that Telegram still repeats, because an older one is at work."""

    @property
    def oldest(self) -> int | None:
        """The lowest number of an update at work, or None if there is none."""
        if not self._works:
            self._done.clear()
        return min(self._works, default=None)

    def start(self, update: IncomingUpdate, group: asyncio.TaskGroup) -> None:
        """Carry out the update in a task of the group, unless it is at work or done."""
        number = update.update_id
        if number in self._works or number in self._done:
            return
        task = group.create_task(self._in_turn(update, [*self._earlier(update)]), name=f"update {number}")
        self._works[number] = _Work(update, task)
        task.add_done_callback(lambda _: self._end(number))

    async def wait(self, within_s: float) -> None:
        """Wait until no update is at work, at most `within_s` seconds."""
        if self._works:
            await asyncio.wait([work.task for work in self._works.values()], timeout=within_s)

    def _end(self, number: int) -> None:
        del self._works[number]
        self._done.add(number)

    def _earlier(self, update: IncomingUpdate) -> Iterator[_Work]:
        return (work for work in self._works.values() if work.update.chat_id == update.chat_id)

    async def _in_turn(self, update: IncomingUpdate, earlier: list[_Work]) -> None:
        is_press = update.kind is UpdateKind.CALLBACK_QUERY
        first = [work.task for work in earlier if not is_press or _is_same_message(work.update, update)]
        others = [work.task for work in earlier if work.task not in first]
        if first:
            await asyncio.wait(first)
        if others:
            await asyncio.wait(others, timeout=PRESS_WAITS_S)
        await self._carry_out(update)


def _is_same_message(press: IncomingUpdate, other: IncomingUpdate) -> bool:
    return press.kind is other.kind and press.message_id == other.message_id
