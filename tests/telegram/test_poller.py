"""Each update is handled exactly once: repeated, out of order, after crashes and faults of the connection."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest

from sm.core.telegram_model import BotMethod, NewCall, TelegramButton, TelegramChange, nonce_digest
from sm.core.timestamps import later
from sm.errors import StorageFull
from sm.services import TelegramLink
from sm.store import Store
from sm.telegram.client import BotClient
from sm.telegram.poller import Poller, UpdateHandler
from sm.telegram.updates import IncomingUpdate, UpdateKind
from tests.telegram.conftest import records
from tests.telegram_api import Fault, Person, TelegramApi
from tests.telegram_api.world import Button
from tests.waits import until_async


class Recorder:
    """Answers each update by a call with its text. The text `nothing` means nothing, as that of a stranger."""

    def __init__(self) -> None:
        self.seen: list[IncomingUpdate] = []
        self.fails_on: str | None = None

    async def handle(self, update: IncomingUpdate, key: str) -> TelegramChange | None:
        self.seen.append(update)
        if update.text is not None and update.text == self.fails_on:
            raise RuntimeError("a defect")
        assert key == f"telegram:4242:{update.update_id}"
        if update.text == "nothing":
            return None
        text = update.text or "-"
        return TelegramChange([NewCall(None, BotMethod.ANSWER_CALLBACK_QUERY, {"text": text})])


def handled(store: Store) -> list[str]:
    """The texts of the updates whose transactions were committed."""
    calls = store.mail.open.outgoing.values()
    return [c.parameters["text"] for c in calls if c.method == BotMethod.ANSWER_CALLBACK_QUERY]


@asynccontextmanager
async def polling(
    store: Store, client: BotClient, handler: UpdateHandler, owners: tuple[int, ...] = (1001,)
) -> AsyncIterator[TelegramLink]:
    link = TelegramLink(time.monotonic)
    poller = Poller(records(store, link, owners), client, link, owners, handler)
    task = asyncio.create_task(poller.run())
    try:
        yield link
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def ready(store: Store, bot_id: int = 4242) -> None:
    """Let the bot have been started before."""
    async with store.transaction() as tx:
        await tx.telegram.begin_bot(bot_id)
        await tx.telegram.finish_first_start(bot_id)


async def reached(api: TelegramApi, condition: Callable[[], Any]) -> None:
    await asyncio.to_thread(api.wait_for, condition, "the condition")


async def confirmed(api: TelegramApi, count: int) -> None:
    await reached(api, lambda: len(api.world.confirmed) >= count and not api.world.updates)


async def test_updates_are_handled_in_order_and_then_confirmed(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    for text in ("/start", "one", "two"):
        ann.says(text)
    api.world.reversed_order = True
    async with polling(store, client, Recorder()) as link:
        await confirmed(api, 3)
        ann.says("three")
        await confirmed(api, 4)
        assert link.bot == "sm_test_bot"
        assert link.trouble() is None
    assert handled(store) == ["/start", "one", "two", "three"]


async def test_two_hundred_waiting_updates_are_each_handled_once_in_order(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    for number in range(200):
        ann.says(f"{number}")
    async with polling(store, client, Recorder()):
        await confirmed(api, 200)
    assert handled(store) == [f"{number}" for number in range(200)]


async def test_expired_button_is_unknown_and_one_without_expiry_is_not(store: Store) -> None:
    at = store.now()
    buttons = [
        TelegramButton(nonce_digest("expired"), 1001, 1001, "kill 1a2b3c4d", "reply 1", at),
        TelegramButton(nonce_digest("valid"), 1001, 1001, "kill 1a2b3c4d", "reply 2", later(at, 60)),
        TelegramButton(nonce_digest("open"), 1001, 1001, "approve r1", "request r1", None),
    ]
    telegram = records(store, TelegramLink(time.monotonic))
    await telegram.apply(TelegramChange(buttons=buttons))
    assert [await telegram.pressed(nonce) for nonce in ("expired", "valid", "open", "", "x" * 65)] == [
        None,
        *buttons[1:],
        None,
        None,
    ]


async def test_repeated_updates_are_nothing_also_after_a_restart(
    path: str, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    for count in (2, 4):
        async with await Store.open(path) as store:
            await ready(store)
            if count == 2:
                ann.says("one")
                ann.says("two")
            else:
                api.repeat_updates()
            recorder = Recorder()
            async with polling(store, client, recorder):
                await confirmed(api, 2)
            assert handled(store) == ["one", "two"]
            assert len(recorder.seen) == (2 if count == 2 else 0)


async def test_update_whose_confirmation_was_lost_is_not_handled_again(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    ann.says("one")
    api.fault("getUpdates", Fault.CUT_AFTER)
    async with polling(store, client, Recorder()):
        await confirmed(api, 1)
    assert handled(store) == ["one"]


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.BAD_GATEWAY])
async def test_poller_goes_on_after_a_fault_of_the_connection(
    store: Store, client: BotClient, api: TelegramApi, ann: Person, fault: Fault
) -> None:
    await ready(store)
    api.fault("getMe", fault)
    api.fault("getUpdates", fault)
    ann.says("one")
    async with polling(store, client, Recorder()):
        await confirmed(api, 1)
    assert handled(store) == ["one"]


async def test_poller_replaces_its_connections_when_no_answer_comes(
    store: Store, client: BotClient, api: TelegramApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.telegram.poller.ANSWER_WITHIN_S", 1.0)
    monkeypatch.setattr("sm.telegram.poller.POLL_WAIT_S", 0)
    await ready(store)
    api.fault("getUpdates", Fault.SILENCE)
    ann.says("one")
    async with polling(store, client, Recorder()):
        await confirmed(api, 1)
    assert handled(store) == ["one"]


async def test_update_that_a_defect_fails_is_skipped_and_later_ones_are_handled(
    store: Store, client: BotClient, api: TelegramApi, ann: Person, caplog: pytest.LogCaptureFixture
) -> None:
    await ready(store)
    recorder = Recorder()
    recorder.fails_on = "poison"
    for text in ("one", "poison", "two"):
        ann.says(text)
    async with polling(store, client, recorder):
        await confirmed(api, 3)
    assert handled(store) == ["one", "two"]
    assert "failed to handle an update of telegram" in caplog.text


async def test_first_start_throws_away_what_waits_and_tells_the_owners(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    for number in range(120):  # more than one poll returns
        ann.says(f"old {number}")
    recorder = Recorder()
    async with polling(store, client, recorder):
        await confirmed(api, 120)
        ann.says("new")
        await confirmed(api, 121)
    assert handled(store) == ["new"]
    told, _ = store.mail.open.outgoing.values()
    assert told.chat_id == ann.id
    assert told.parameters["text"] == (
        "This is the first start of the bot. 120 messages and presses were thrown away: please send them again."
    )


async def test_first_start_says_nothing_when_nothing_waited(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    async with polling(store, client, Recorder()):
        await reached(api, lambda: len([poll for poll in api.polls if poll.method == "getUpdates"]) > 0)
        ann.says("new")
        await confirmed(api, 1)
    assert len(store.mail.open.outgoing) == 1
    assert handled(store) == ["new"]


async def test_second_poller_is_told_and_polled_again_after_a_pause(
    store: Store, client: BotClient, api: TelegramApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.telegram.poller.CONFLICT_PAUSE_S", 0.1)
    await ready(store)
    api.world.has_rival = True
    async with polling(store, client, Recorder()) as link:
        await reached(api, lambda: len([poll for poll in api.polls if poll.status == 409]) >= 2)
        assert link.trouble() == (
            "telegram: another process polls with the token of the bot; sm tries again every minute"
        )
        api.heal()
        ann.says("one")
        await confirmed(api, 1)
        assert link.trouble() is None


async def test_refused_token_ends_the_polls_until_the_next_start(
    store: Store, api: TelegramApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    link = TelegramLink(time.monotonic)
    async with BotClient("4242:revoked", api.url) as client:
        await Poller(records(store, link), client, link, (1001,), Recorder()).run()
    assert link.off == "telegram refuses the token of the bot (401)"
    assert [poll.status for poll in api.polls] == [401]
    assert "revoked" not in caplog.text


def test_silence_of_two_minutes_is_trouble() -> None:
    now = 1000.0
    link = TelegramLink(lambda: now)
    now += 119
    assert link.trouble() is None
    now += 1
    assert link.trouble() == "telegram has not answered for 2 minutes"
    link.answered()
    assert link.trouble() is None


async def test_update_that_means_nothing_leaves_no_row(
    store: Store, path: str, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    for text in ("nothing", "one", "nothing"):
        ann.says(text)
    async with polling(store, client, Recorder()):
        await confirmed(api, 3)
    with closing(sqlite3.connect(path)) as db:
        assert len(db.execute("SELECT 1 FROM telegram_updates").fetchall()) == 1


async def test_updates_of_every_kind_are_read(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    forum = api.group(-1_001_000_000_001, "Fleet", is_forum=True, is_admin=True)
    first = ann.says("hello", forum, thread=77, reply_to=ann.says("before"))
    ann.edits(first, "hello again")
    ann.adds_bot(forum)
    recorder = Recorder()
    async with polling(store, client, recorder):
        await confirmed(api, 4)
    before, message, edited, member = recorder.seen
    assert (before.is_private, before.text, before.user_id, before.user_name) == (True, "before", 1001, "Ann")
    assert (message.kind, message.chat_id, message.chat_kind) == (UpdateKind.MESSAGE, forum.id, "supergroup")
    assert (message.thread_id, message.reply_to, message.chat_title) == (77, before.message_id, "Fleet")
    assert (edited.kind, edited.text) == (UpdateKind.EDITED_MESSAGE, "hello again")
    assert (member.kind, member.user_id, member.chat_id) == (UpdateKind.MY_CHAT_MEMBER, 1001, forum.id)


class SlowRecorder(Recorder):
    """Works on updates with the text `slow` and on presses of `slow` until `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def handle(self, update: IncomingUpdate, key: str) -> TelegramChange | None:
        change = await super().handle(update, key)
        if "slow" in (update.text, update.callback_data):
            await self.go.wait()
        return change

    @property
    def begun(self) -> list[str]:
        return [update.text or update.callback_data or "-" for update in self.seen]


async def begun(recorder: SlowRecorder, *words: str) -> None:
    """Wait until exactly these updates have begun."""

    async def have_begun() -> bool:
        return recorder.begun == list(words)

    await until_async(have_begun, f"the work on {words}")


async def test_long_work_keeps_other_chats_and_presses_of_its_own_chat_no_longer(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    bob = api.person(1002, "Bob")
    card = ann.says("a card")
    recorder = SlowRecorder()
    async with polling(store, client, recorder):
        await confirmed(api, 1)
        ann.says("slow")
        await begun(recorder, "a card", "slow")
        bob.says("bob's")
        await begun(recorder, "a card", "slow", "bob's")
        ann.presses(Button(ann.id, card.message_id, "Approve", "press"))
        await begun(recorder, "a card", "slow", "bob's", "press")
        recorder.go.set()
        await confirmed(api, 4)
    assert handled(store) == ["a card", "bob's", "-", "slow"]


async def test_text_waits_for_the_long_work_of_an_earlier_update_of_its_chat(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    bob = api.person(1002, "Bob")
    recorder = SlowRecorder()
    async with polling(store, client, recorder):
        ann.says("slow")
        ann.says("later")
        bob.says("bob's")
        await begun(recorder, "slow", "bob's")
        recorder.go.set()
        await confirmed(api, 3)
    assert recorder.begun == ["slow", "bob's", "later"]


async def test_presses_on_one_message_are_carried_out_one_after_the_other(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await ready(store)
    one, two = ann.says("one"), ann.says("two")
    recorder = SlowRecorder()
    async with polling(store, client, recorder):
        await confirmed(api, 2)
        ann.presses(Button(ann.id, one.message_id, "", "slow"))
        ann.presses(Button(ann.id, one.message_id, "", "same message"))
        ann.presses(Button(ann.id, two.message_id, "", "other message"))
        await begun(recorder, "one", "two", "slow", "other message")
        recorder.go.set()
        await confirmed(api, 5)
    assert recorder.begun[-1] == "same message"


async def test_update_at_work_is_not_confirmed_and_comes_again_after_a_crash(
    path: str, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    bob = api.person(1002, "Bob")
    recorder = SlowRecorder()
    async with await Store.open(path) as store:
        await ready(store)
        async with polling(store, client, recorder):
            ann.says("slow")
            bob.says("bob's")
            await begun(recorder, "slow", "bob's")
            polls = len(api.polls)
            await reached(api, lambda: len(api.polls) >= polls + 3)
            assert len(api.world.updates) == 2
        assert handled(store) == ["bob's"]
    recorder.go.set()
    async with await Store.open(path) as store:
        async with polling(store, client, recorder):
            await confirmed(api, 2)
        assert handled(store) == ["bob's", "slow"]
    assert recorder.begun == ["slow", "bob's", "slow"]


async def test_updates_of_a_full_disk_keep_their_order(
    store: Store, client: BotClient, api: TelegramApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(store)
    monkeypatch.setattr("sm.telegram.poller._FIRST_PAUSE_S", 0.05)

    class FullOnce(Recorder):
        async def handle(self, update: IncomingUpdate, key: str) -> TelegramChange | None:
            if not self.seen:
                self.seen.append(update)
                raise StorageFull("the disk is full")
            return await super().handle(update, key)

    recorder = FullOnce()
    async with polling(store, client, recorder):
        ann.says("one")
        ann.says("two")
        await confirmed(api, 2)
    assert handled(store) == ["one", "two"]
