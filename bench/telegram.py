"""Measures the bot of Telegram against the Bot API server of the tests: replies, buttons, memory, and an outage."""

import asyncio
import contextlib
import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from telegram import Bot

from bench.instance import SM, Connection, Instance, until
from bench.row import Effort, Judged, Pairs, Row, alternate, timed_ms
from bench.watching import memory_kb
from tests.telegram_api import Fault, Person, TelegramApi

_LISTED = 100
_OWNER = 1001
_REFILL_S = 3.2
"""After this time a chat has its whole burst of messages again, so that no limit of Telegram is measured."""
_ASK = "sm ask 'Which?' --option yes --wait 600; : > {done}; exec sleep 1000000"


def measure(effort: Effort) -> Iterator[Row]:
    with TelegramApi() as api, connected(api, min(effort.stored, _LISTED)) as (instance, ann):
        yield _list(api, ann, max(effort.pairs // 2, 1), min(effort.stored, _LISTED))
        yield _button(api, ann, instance, max(effort.pairs // 3, 1))
    yield _memory()
    yield from _outage(effort)


@contextlib.contextmanager
def connected(api: TelegramApi, stored: int = 0) -> Iterator[tuple[Instance, Person]]:
    """An instance whose bot talks to the server, and its owner."""
    with tempfile.TemporaryDirectory(prefix="sm-bench-") as directory:
        token = Path(directory, "token")
        token.touch(0o600)
        token.write_text(api.token)
        section = f"telegram: {{token_file: {token}, owner_ids: [{_OWNER}], base_url: '{api.url}'}}\n"
        with Instance(stored, config=section) as instance:
            api.wait_for(lambda: any(poll.method == "getUpdates" for poll in api.polls), "a poll")
            ann = api.person(_OWNER, "Ann")
            ann.says("/start")
            api.wait_for_message(_OWNER, "connected")
            yield instance, ann


def _list(api: TelegramApi, ann: Person, times: int, listed: int) -> Row:
    """From the update with the command until the first message of the reply is at the server."""

    def ours() -> None:
        before = len(api.messages(_OWNER))
        ann.says("/list all")
        api.wait_for(lambda: len(api.messages(_OWNER)) > before, "the list")

    with asyncio.Runner() as runner:
        bot = runner.run(_bot(api))
        found: list[tuple[float, float]] = []
        for _ in range(times + 1):
            time.sleep(_REFILL_S)
            found.append((timed_ms(ours), timed_ms(lambda: runner.run(_get_me(bot)))))
        runner.run(bot.shutdown())
    pairs = Pairs([a for a, _ in found[1:]], [b for _, b in found[1:]])
    return pairs.row(f"telegram: /list of {listed}, update to message", "getMe", Judged.ABOVE, 15, None)


async def _bot(api: TelegramApi) -> Bot:
    bot = Bot(api.token, f"{api.url}/bot")
    await bot.initialize()
    return bot


async def _get_me(bot: Bot) -> None:
    await bot.get_me()


def _button(api: TelegramApi, ann: Person, instance: Instance, times: int) -> Row:
    """From the press of a button until the waiting `sm ask` of the agent has ended."""
    asked = 0

    def ask() -> tuple[str, Path]:
        nonlocal asked
        asked += 1
        done = instance.home / f"done-{asked}"
        instance.spawn("Sh", _ASK.format(done=done))
        api.wait_for_message(_OWNER, f"r{asked}: ")
        return f"r{asked}", done

    def finished(done: Path) -> None:
        while not done.exists():
            time.sleep(0.0005)

    def press(name: str, done: Path) -> None:
        ann.presses(api.messages(_OWNER, f"{name}: ")[0].button("1: yes"))
        finished(done)

    def answer(name: str, done: Path) -> None:
        instance.run(SM, "answer", name, "yes")
        finished(done)

    ours, floor = [], []
    for _ in range(times + 1):
        asking, waiting = ask(), ask()
        ours.append(timed_ms(functools.partial(press, *asking)))
        floor.append(timed_ms(functools.partial(answer, *waiting)))
    return Pairs(ours[1:], floor[1:]).row("telegram: button to answer", "sm answer", Judged.ABOVE, 15, None)


def _memory() -> Row:
    with Instance() as without:
        floor = memory_kb(without.daemon.pid)["Rss"] / 1024
    with TelegramApi() as api, connected(api) as (instance, _):
        ours = memory_kb(instance.daemon.pid)["Rss"] / 1024
    return Row(
        "memory of the daemon with a bot (RSS)",
        "MB",
        ours,
        floor,
        "without a bot",
        None,
        Judged.ABOVE,
        gate=20,
    )


def _outage(effort: Effort) -> Iterator[Row]:
    """Spawns and messages while Telegram takes calls and never answers, next to a daemon without a bot."""
    endings = max(effort.stored // 2, 1)
    with TelegramApi() as api, connected(api) as (silent, _), Instance() as plain:
        api.fault("*", Fault.SILENCE, times=1_000_000_000)
        for instance in (silent, plain):
            instance.spawn_many(endings, "Sh", ["exit 3"] * endings)
            until(functools.partial(_have_ended, instance, endings), "all agents have ended")
        recipients = [instance.spawn()["session_id"] for instance in (silent, plain)]
        connections = [Connection(instance.socket) for instance in (silent, plain)]

        def send(which: int) -> None:
            body = {"to": recipients[which], "text": "a message", "wait_s": 0}
            connections[which].raw("POST", "/v1/messages", body)

        def spawn(which: int) -> None:
            connections[which].raw("POST", "/v1/sessions", (silent, plain)[which].spawn_request())

        for name, act, times in (("send", send, 10 * effort.pairs), ("spawn", spawn, effort.pairs)):
            pairs = alternate(times, functools.partial(act, 0), functools.partial(act, 1))
            what = f"{name}, telegram silent, {endings} reports wait"
            yield pairs.row(what, "without a bot", Judged.RATIO, 1.05, None)
        for connection in connections:
            connection.close()


def _have_ended(instance: Instance, count: int) -> bool:
    statuses = instance.client.get("/v1/status")["sessions"]
    return int(statuses.get("error", 0)) >= count
