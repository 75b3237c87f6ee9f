"""The phone of an owner: a chat with the bot of the daemon, through a Telegram that fails from time to time."""

import asyncio
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

from sm.core.text import folded
from tests.sim.blocking import run_blocking_on_loop
from tests.sim.telegram import PlayedTelegramApi
from tests.sim.told import Told
from tests.sim.world import World
from tests.telegram_api import ALWAYS, Button, Fault, Person, SentMessage

_OWNER = 1001
_AGAIN = "\n(again)"
_UNTRUSTED = " (untrusted)"
_ENDINGS = ("completed", "error", "killed", "abandoned")
_AWAY_S = 50.0
_WITHIN_S = 600.0
"""Longer than the longest pauses of the bot after an outage."""
_LOOK_S = 0.5


class Phone:
    """The chat of one world. `begin` comes before the first daemon, and `greet` after its start."""

    def __init__(self, world: World, told: Told, say: Callable[[str], None], open: ExitStack) -> None:
        ahead_s = world.clocks.wall() - world.loop.time()  # Telegram has a clock of its own
        self._world = world
        self._told = told
        self._say = say
        self._open = open
        self._api = PlayedTelegramApi(lambda: world.loop.time() + ahead_s)
        self._ann: Person = self._api.person(_OWNER, "Ann", "ann")
        self._first_seq = 0
        self._come_back: Callable[[], None] | None = None

    async def begin(self, *, progress: bool) -> None:
        """Serve the bot, and name it in the configuration. `progress`: with a card of each working session."""
        world, api = self._world, self._api

        def serve() -> None:
            api.serve_world(world, self._open.enter_context)

        await run_blocking_on_loop(serve, nullcontext)
        token = world.home / "token"
        token.write_text(f"{api.token}\n")
        token.chmod(0o600)
        with Path(world.paths.config).open("a", encoding="utf-8") as file:
            file.write(f"telegram: {{token_file: {token}, owner_ids: [{_OWNER}], base_url: '{api.url}'")
            file.write(f", progress: {str(progress).lower()}}}\n")

    async def greet(self) -> None:
        """Write to the bot for the first time, when it has thrown away what waited before its first start."""
        await self._until(lambda: bool(self._rows("SELECT 1 FROM telegram_bots WHERE ready")))
        self._ann.says("/start")
        await self._until(lambda: bool(self._api.messages(_OWNER, "connected")))
        self._first_seq = self._world.store.last_seq

    # Its acts

    def send(self, target: str, tag: str) -> None:
        """Write a message to an agent."""
        self._told.phoned[tag] = self._ann.says(f"/send {target} {tag}").message_id
        self._say(f"the owner wrote {tag}")

    def press(self, value: float) -> None:
        """Press one of the buttons that the chat shows."""
        buttons = list(self._buttons())
        if buttons:
            button = buttons[int(value * len(buttons))]
            self._ann.presses(button)
            self._say(f"the owner pressed {button.text!r} of message {button.message_id}")

    def _buttons(self) -> Iterator[Button]:
        for message in self._api.messages(_OWNER):
            for row in (message.keyboard or {}).get("inline_keyboard", ()):
                yield from (message.button(button["text"]) for button in row)

    # Faults of Telegram

    async def fail(self, value: float) -> None:
        api, times = self._api, 1 + int(value * 97) % 4
        if value < 0.3:
            self._say("FAULT Telegram is away")
            self.heal()
            self._come_back = self._world.board.cut_off(api.address)
            await asyncio.sleep(_AWAY_S * value / 0.3)
            self.heal()
        elif value < 0.5:
            self._say(f"FAULT Telegram answers {times} calls with 502")
            api.fault("*", Fault.BAD_GATEWAY, times)
        elif value < 0.7:
            self._say(f"FAULT Telegram answers {times} messages with 429")
            api.fault("sendMessage", Fault.FLOOD, times)
        elif value < 0.85:
            self._say("FAULT the answer of Telegram to a message is lost")
            api.fault("sendMessage", Fault.CUT_AFTER)
        else:
            self._say("FAULT Telegram cuts off each call")
            api.fault("*", Fault.CUT_BEFORE, ALWAYS)
            await asyncio.sleep(_AWAY_S * (value - 0.85))
            self.heal()

    def heal(self) -> None:
        """End all faults."""
        self._api.heal()
        if self._come_back is not None:
            self._come_back()
            self._come_back = None

    # Its promises

    async def broken(self) -> list[str]:
        """Wait until the bot has nothing left to say, and name each promise that does not hold in the chat."""
        self.heal()
        until_s = self._world.loop.time() + _WITHIN_S
        while True:
            found = self._wrong()
            if not found or self._world.loop.time() > until_s:
                return found
            await asyncio.sleep(_LOOK_S)

    def _wrong(self) -> list[str]:
        left = self._rows(
            "SELECT json_extract(payload, '$.method'), state FROM outbox WHERE kind = 'telegram'"
        )
        if self._api.world.updates or left:
            return [f"not settled: {len(self._api.world.updates)} updates, calls to Telegram: {left[:5]}"]
        return [*self._reports(), *self._requests(), *self._answers()]

    def _reports(self) -> list[str]:
        """Each ending is told once. A message whose answer was lost comes again, and says so."""
        marks = ", ".join("?" * len(_ENDINGS))
        ended = Counter(
            folded(str(text), 1000).strip()
            for (text,) in self._rows(
                "SELECT message FROM events JOIN sessions ON sessions.id = session_id"  # noqa: S608 - marks
                f" WHERE seq > ? AND type IN ({marks}) AND removed = 0",
                (self._first_seq, *_ENDINGS),
            )
        )
        shown = [message.text for message in self._api.messages(_OWNER)]
        once = Counter(text.removesuffix(_UNTRUSTED) for text in shown)
        again = Counter(
            text.removesuffix(_AGAIN).removesuffix(_UNTRUSTED) for text in shown if text.endswith(_AGAIN)
        )
        is_cut = any("waited too long for Telegram" in text for text in shown)
        may_miss = is_cut or bool(self._rows("SELECT 1 FROM telegram_dropped"))
        found = []
        for text, times in ended.items():
            if once[text] > times:
                found.append(f"3: told {once[text]} times in Telegram, not {times}: {text[:80]}")
            if once[text] + again[text] < times and not may_miss:
                found.append(f"3: told {once[text]} times in Telegram, not {times}: {text[:80]}")
        return found

    def _requests(self) -> list[str]:
        """Each open request has one card, and no card of another one has buttons."""
        about = dict(self._rows("SELECT message_id, about FROM telegram_messages"))
        states = {f"request r{id}": state for id, state in self._rows("SELECT id, state FROM requests")}
        cards: dict[str, list[SentMessage]] = {}
        for message in self._api.messages(_OWNER):
            if (name := str(about.get(message.message_id))) in states and message.document is None:
                cards.setdefault(name, []).append(message)
        found = []
        for name, messages in cards.items():
            first = [message for message in messages if not _is_repeated(message)]
            if len(first) > 1:
                found.append(f"3: {name} has {len(first)} cards in Telegram")
            if states[name] != "open" and any(message.keyboard for message in messages):
                found.append(f"2: {name} is {states[name]}, and its card in Telegram has buttons")
        return found

    def _answers(self) -> list[str]:
        """Each message to an agent is stored once, or the owner reads why not."""
        stored = Counter(text for (text,) in self._rows("SELECT text FROM messages WHERE text LIKE 'tag%'"))
        replied = {message.reply_to for message in self._api.messages(_OWNER)}
        gone = bool(self._rows("SELECT 1 FROM telegram_dropped"))
        return [
            f"1: {tag} from Telegram is stored {stored[tag]} times, without an answer"
            for tag, message_id in self._told.phoned.items()
            if stored[tag] != 1
            and not (stored[tag] == 0 and (gone or message_id in replied))
            and tag.rpartition(" ")[2] not in self._told.removed
        ]

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        if not os.path.exists(self._world.paths.database):
            return []
        with closing(sqlite3.connect(f"file:{self._world.paths.database}?mode=ro", uri=True)) as db:
            return list(db.execute(sql, values))

    async def _until(self, found: Callable[[], bool]) -> None:
        while True:
            if found():
                return
            await asyncio.sleep(_LOOK_S)


def _is_repeated(message: SentMessage) -> bool:
    return any(text.endswith(_AGAIN) for text in (message.text, *message.edits))
