"""Each call that waits in the database is made once, whatever the connection and Telegram do."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from sm.core.effects import EffectState
from sm.core.telegram_model import BotMethod, Need, NewCall, TelegramCounts
from sm.services import TelegramLink
from sm.store import Store
from sm.telegram.client import BotClient
from tests.telegram.conftest import sender
from tests.telegram_api import Fault, Person, TelegramApi

FORUM = -1_001_000_000_001


def text(text: str, chat_id: int = 1001, need: Need = Need.ANSWER, **parameters: Any) -> NewCall:
    return NewCall(chat_id, BotMethod.SEND_MESSAGE, {"text": text, **parameters}, need)


async def queue(store: Store, *calls: NewCall) -> None:
    async with store.transaction() as tx:
        for call in calls:
            await tx.telegram.queue(call)


@asynccontextmanager
async def sending(store: Store, client: BotClient) -> AsyncIterator[TelegramLink]:
    link = TelegramLink(time.monotonic)
    task = asyncio.create_task(sender(store, client, link).run())
    try:
        yield link
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until_empty(store: Store) -> None:
    assert await store.wait_until(lambda: not store.mail.open.outgoing, 60)


async def reached(api: TelegramApi, condition: Callable[[], Any]) -> None:
    await asyncio.to_thread(api.wait_for, condition, "the condition")


def shown(api: TelegramApi, chat_id: int = 1001) -> list[str]:
    return [message.text for message in api.messages(chat_id)]


async def test_sender_makes_the_calls_that_wait_and_those_that_come(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(store, text("before"))
    async with sending(store, client):
        await until_empty(store)
        await queue(store, text("after", disable_notification=True))
        await until_empty(store)
    assert shown(api) == ["before", "after"]
    assert [message.silent for message in api.messages(1001)] == [False, True]


async def test_more_needed_call_is_made_first(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(
        store,
        text("progress", need=Need.PROGRESS),
        text("ending", need=Need.ENDING),
        text("request", need=Need.REQUEST),
    )
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["request", "ending", "progress"]


async def test_message_with_buttons_a_reply_and_an_edit_reach_the_chat(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    said = ann.says("hello")
    keyboard = {"inline_keyboard": [[{"text": "Go", "callback_data": "x"}]]}
    await queue(
        store, text("<b>card</b>", parse_mode="HTML", reply_markup=keyboard, reply_to=said.message_id)
    )
    async with sending(store, client):
        await until_empty(store)
        card = api.messages(1001)[0]
        assert (card.text, card.reply_to, card.button("Go").data) == ("card", said.message_id, "x")
        edit = {"message_id": card.message_id, "text": "done"}
        await queue(store, NewCall(1001, BotMethod.EDIT_MESSAGE_TEXT, edit))
        await queue(
            store,
            NewCall(
                None, BotMethod.ANSWER_CALLBACK_QUERY, {"callback_query_id": ann.presses(card.button("Go"))}
            ),
        )
        await until_empty(store)
    assert (card.text, card.keyboard, card.edits) == ("done", None, ["card"])
    assert len(api.world.answers) == 1


async def test_sent_message_is_kept_with_the_object_that_it_shows(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(store, NewCall(1001, BotMethod.SEND_MESSAGE, {"text": "x"}, about="session aaaa1111"))
    async with sending(store, client):
        await until_empty(store)
    async with store.transaction() as tx:
        rows = await tx.read("SELECT chat_id, message_id, about FROM telegram_messages", ())
    assert [tuple(row) for row in rows] == [(1001, api.messages(1001)[0].message_id, "session aaaa1111")]


async def test_message_whose_answer_was_lost_is_sent_once_more_and_marked(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    api.fault("sendMessage", Fault.CUT_AFTER)
    await queue(store, text("hello"))
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["hello", "hello\n(again)"]


async def test_message_whose_answer_was_lost_twice_is_dropped_and_counted(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    api.fault("sendMessage", Fault.CUT_AFTER, times=2)
    await queue(store, text("hello"))
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["hello", "hello\n(again)"]
    assert await store.telegram.counts() == TelegramCounts(dropped=1)


async def test_edit_whose_answer_was_lost_is_repeated_without_harm(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(store, text("one"))
    async with sending(store, client):
        await until_empty(store)
        message = api.messages(1001)[0]
        api.fault("editMessageText", Fault.CUT_AFTER)
        edit = {"message_id": message.message_id, "text": "two"}
        await queue(store, NewCall(1001, BotMethod.EDIT_MESSAGE_TEXT, edit))
        await until_empty(store)
    assert (message.text, message.edits) == ("two", ["one"])
    assert await store.telegram.counts() == TelegramCounts()


async def test_call_is_repeated_without_a_mark_after_a_bad_gateway(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    api.fault("sendMessage", Fault.BAD_GATEWAY)
    await queue(store, text("hello"))
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["hello"]


async def test_calls_wait_while_nothing_listens_and_are_sent_without_a_mark(
    store: Store, api: TelegramApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.telegram.sender.FIRST_PAUSE_S", 60.0)  # the sender is ended between two attempts
    url = api.url
    async with BotClient(api.token, "http://127.0.0.1:1") as nobody:
        await queue(store, text("hello"))
        [number] = store.mail.open.outgoing
        async with sending(store, nobody):
            for state in EffectState.TAKEN, EffectState.PENDING:
                assert await store.wait_until(
                    lambda: store.mail.open.outgoing[number].state == state,  # noqa: B023 - awaited
                    60,
                )
    async with BotClient(api.token, url) as client, sending(store, client):
        await until_empty(store)
    assert shown(api) == ["hello"]


async def test_flooded_chat_gets_no_call_before_its_time_and_other_chats_go_on(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    bob = api.person(1002, "Bob", has_started=True)
    api.retry_after_s = 2
    api.fault("sendMessage", Fault.FLOOD)
    await queue(store, text("one"), text("two"), text("for bob", bob.id))
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["one", "two"]
    assert shown(api, bob.id) == ["for bob"]
    assert api.world.ignored_waits == []
    order = [call.chat_id for call in api.sent("sendMessage") if call.status == 200]
    assert order[0] == bob.id


async def test_flooded_chat_stays_closed_after_a_restart(
    path: str, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    api.retry_after_s = 2
    api.fault("sendMessage", Fault.FLOOD)
    async with await Store.open(path) as store:
        await queue(store, text("hello"))
        async with sending(store, client):
            await reached(api, lambda: api.sent("sendMessage"))
            assert await store.wait_until(
                lambda: all(c.state == "pending" for c in store.mail.open.outgoing.values()), 30
            )
    async with await Store.open(path) as store, sending(store, client):
        await until_empty(store)
    assert shown(api) == ["hello"]
    assert api.world.ignored_waits == []


async def test_message_with_wrong_markup_is_sent_as_plain_text(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(
        store, text("<b>bold</b> &lt;i&gt; <oops>", parse_mode="HTML"), text("a < b", parse_mode="HTML")
    )
    async with sending(store, client):
        await until_empty(store)
    assert sorted(shown(api)) == ["a < b", "bold <i>"]


async def test_refused_call_is_dropped_and_counted_with_its_reason(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    api.person(1002, "Bob")
    await queue(
        store, text("to nobody", 7), text("not started", 1002), text("x" * 5000), text(""), text("fine")
    )
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["fine"]
    assert {drop.reason for drop in await store.telegram.dropped()} == {
        "Chat not found",
        "Forbidden: bot can't initiate conversation with a user",
        "Message is too long",
        "Message text is empty",
    }
    assert await store.telegram.counts() == TelegramCounts(dropped=4)


async def test_call_that_the_library_does_not_know_is_dropped(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(store, text("x", no_such_parameter=1), text("fine"))
    async with store.transaction() as tx:
        tx.write(
            "UPDATE outbox SET payload = json_set(payload, '$.method', 'of_a_newer_version') WHERE id = 99",
            (),
        )
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["fine"]
    assert [drop.reason for drop in await store.telegram.dropped()] == ["invalid call: TypeError"]


async def test_half_a_surrogate_pair_does_not_stop_the_queue(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    await queue(store, text("a\ud800b 😀"))
    async with sending(store, client):
        await until_empty(store)
    assert shown(api) == ["a?b 😀"]


async def test_group_that_became_a_supergroup_is_followed(
    store: Store, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    group = api.group(-500, "Fleet")
    new = api.migrate(group, FORUM)
    await queue(store, text("one", group.id), text("two", group.id))
    async with sending(store, client):
        await until_empty(store)
        await queue(store, text("three", group.id))
        await until_empty(store)
    assert shown(api, new.id) == ["one", "two", "three"]
    assert [call.status for call in api.sent("sendMessage")] == [400, 200, 200, 200]


async def test_refused_token_ends_the_calls_until_the_next_start(
    store: Store, api: TelegramApi, ann: Person
) -> None:
    async with BotClient("4242:revoked", api.url) as client:
        await queue(store, text("hello"))
        async with sending(store, client) as link:
            await reached(api, lambda: api.sent("sendMessage"))
            assert await store.wait_until(
                lambda: all(c.state == "pending" for c in store.mail.open.outgoing.values()), 30
            )
            assert link.trouble() == (
                "telegram is off until the daemon restarts: telegram refuses the token of the bot (401)"
            )
    assert len(api.sent("sendMessage")) == 1
    assert len(store.mail.open.outgoing) == 1


async def test_call_that_a_crash_interrupted_is_sent_again_with_a_mark(
    path: str, client: BotClient, api: TelegramApi, ann: Person
) -> None:
    async with await Store.open(path) as store:
        await queue(store, text("hello"), text("next"))
        async with store.transaction() as tx:
            tx.telegram.begin(tx.mail.open.outgoing[1])
    async with await Store.open(path) as store, sending(store, client):
        await until_empty(store)
    assert shown(api) == ["hello\n(again)", "next"]


async def test_calls_that_were_left_out_become_one_summary_in_their_chat(
    store: Store, client: BotClient, api: TelegramApi, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.store.telegram_rows.QUEUE_MAX", 2)
    await queue(store, *(text(f"{n}", need=Need.ENDING) for n in range(5)))
    async with sending(store, client):
        await until_empty(store)
        await reached(api, lambda: len(api.messages(1001)) == 3)
    assert shown(api) == [
        "3",
        "4",
        "3 reports waited too long for Telegram.\n/list all shows every session.",
    ]
