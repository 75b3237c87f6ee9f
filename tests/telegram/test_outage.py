"""An hour in which Telegram takes calls and never answers: the library, the database and the server are real."""

import asyncio
from collections import Counter
from contextlib import suppress

from sm.core.telegram_model import (
    QUEUE_MAX,
    BotMethod,
    Need,
    NewCall,
    TelegramCounts,
    request_object,
    session_object,
)
from sm.services import TelegramLink
from sm.store import Store
from sm.telegram.client import BotClient
from tests.fast_time import FastTime
from tests.telegram.conftest import sender
from tests.telegram_api import Fault, TelegramApi

HOUR_S = 3600.0
READERS = (1001, 1002, 1003)
KEYBOARD = {"inline_keyboard": [[{"text": "Approve", "callback_data": "x"}]]}


def ending(number: int, reader: int) -> NewCall:
    return NewCall(
        reader,
        BotMethod.SEND_MESSAGE,
        {"text": f"ending {number}"},
        Need.ENDING,
        about=session_object(f"{number:08x}"),
    )


def card(name: str, reader: int) -> NewCall:
    return NewCall(
        reader,
        BotMethod.SEND_MESSAGE,
        {"text": f"card {name}", "reply_markup": KEYBOARD},
        Need.REQUEST,
        f"card {name} {reader}",
        request_object(name),
    )


class Outage:
    """A sender in one hour of silence, and until its queue is empty. `longest`: the most calls that waited."""

    def __init__(self, path: str, endings: int) -> None:
        self.path, self.endings = path, endings
        self.longest = 0
        self.counts = TelegramCounts()
        self.loop = FastTime()

    def run(self) -> TelegramApi:
        with TelegramApi(now=self.loop.time) as api, asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            for reader in READERS:
                api.person(reader, f"{reader}", has_started=True)
            api.world.enforces_limits = True
            runner.run(self._hour(api))
        return api

    async def _hour(self, api: TelegramApi) -> None:
        link = TelegramLink(self.loop.time)
        async with await Store.open(self.path) as store, BotClient(api.token, api.url) as client:
            made = sender(store, client, link, self.loop.time)
            sending = asyncio.create_task(made.run())
            try:
                await self._silence(store, api)
                api.heal()
                self.loop.skip_after(1.0)
                assert await store.wait_until(lambda: not store.mail.open.outgoing, HOUR_S)
                if sending.done():
                    sending.result()
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
            self.counts = await store.telegram.counts()

    async def _silence(self, store: Store, api: TelegramApi) -> None:
        api.fault("*", Fault.SILENCE, times=1_000_000)
        for number in range(self.endings):
            async with store.transaction() as tx:
                for reader in READERS:
                    await tx.telegram.queue(ending(number, reader))
                    if number % (self.endings // 4) == 1:
                        await tx.telegram.queue(card(f"r{number}", reader))
            self.longest = max(self.longest, len(store.mail.open.outgoing))
            await asyncio.sleep(HOUR_S / self.endings)


def test_hour_of_silence_is_followed_by_one_summary_and_the_open_cards(path: str) -> None:
    endings = 500
    outage = Outage(path, endings)
    api = outage.run()
    assert outage.longest <= QUEUE_MAX
    for reader in READERS:
        shown = [message.text for message in api.messages(reader)]
        cards = [text for text in shown if text.startswith("card ")]
        assert len(set(cards)) == len(cards) == 4
        (summary,) = [text for text in shown if "waited too long for Telegram" in text]
        told = [text for text in shown if text.startswith("ending ")]
        assert len(told) <= 1, "at most the ending that was under way"
        assert f"{endings - len(told)} reports" in summary
        assert f"ending {endings - 1}" in summary
    assert outage.counts == TelegramCounts()
    assert api.world.ignored_waits == []
    lost = Counter(call.method for call in api.calls if call.status == 0)
    assert lost["sendMessage"] <= 2, "an outage costs a message one attempt, not the whole queue"
