"""Updates, calls and chats of Telegram on a real SQLite file."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.effects import EffectState
from sm.core.telegram_model import (
    QUEUE_MAX,
    BotMethod,
    CardDraft,
    Need,
    NewCall,
    TelegramButton,
    TelegramChange,
    TelegramChat,
    TelegramCounts,
)
from sm.core.telegram_threads import ProgressCard, Topic, TopicState
from sm.errors import SmError
from sm.store import Store
from tests import golden

DATA = Path(__file__).parents[1] / "data"
BOT = 4242


def message(text: str, chat_id: int = 1001, need: Need = Need.ANSWER, subject: str | None = None) -> NewCall:
    return NewCall(chat_id, BotMethod.SEND_MESSAGE, {"text": text}, need, subject)


async def queue(store: Store, *calls: NewCall) -> None:
    async with store.transaction() as tx:
        for call in calls:
            await tx.telegram.queue(call)


def texts(store: Store) -> list[str]:
    return [call.parameters["text"] for call in store.mail.open.outgoing.values()]


async def test_database_of_version_10_has_its_calls_and_chats(path: str) -> None:
    shutil.copy(DATA / "v10.db", path)
    async with await Store.open(path) as store:
        assert store.mail.open.outgoing == {1: golden.OUTGOING}
        assert await store.telegram.chats() == [golden.CHAT, golden.MIGRATED]
        assert store.mail.open.texts == {7: golden.TEXT}
        assert await store.telegram.draft("request r1", 1001) == golden.DRAFT
        assert await store.chat_preferences.followers(golden.RUNNING.id) == {1001}
        threads = store.telegram.threads
        assert await threads.topic(golden.TOPIC.session_id, golden.TOPIC.chat_id) == golden.TOPIC
        assert await threads.live_cards() == [golden.CARD]
        assert await threads.forum(golden.FORUM.chat_id) == golden.FORUM
        async with store.transaction() as tx:
            assert not await tx.telegram.record_update(BOT, 900_001)


async def test_update_is_recorded_once_also_after_a_restart(path: str) -> None:
    for first in (True, False):
        async with await Store.open(path) as store, store.transaction() as tx:
            assert await tx.telegram.record_update(BOT, 7) is first
            assert await tx.telegram.record_update(BOT + 1, 7) is first


async def test_update_of_a_failed_transaction_is_not_recorded(store: Store) -> None:
    async def fail() -> None:
        async with store.transaction() as tx:
            assert await tx.telegram.record_update(BOT, 7)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with store.transaction() as tx:
        assert await tx.telegram.record_update(BOT, 7)


async def test_database_refuses_a_second_row_of_an_update(store: Store) -> None:
    async def insert_twice() -> None:
        async with store.transaction() as tx:
            for _ in range(2):
                tx.write("INSERT INTO telegram_updates (bot_id, update_id, at) VALUES (1, 1, '')", ())

    with pytest.raises(SmError):
        await insert_twice()


async def test_first_start_counts_each_discarded_update_once(store: Store) -> None:
    for _ in range(2):  # the second time: the confirmation was lost
        async with store.transaction() as tx:
            assert not await tx.telegram.begin_bot(BOT)
            await tx.telegram.discard_updates(BOT, [1, 2, 3])
    async with store.transaction() as tx:
        assert await tx.telegram.finish_first_start(BOT) == 3
    async with store.transaction() as tx:
        assert await tx.telegram.begin_bot(BOT)
        assert not await tx.telegram.begin_bot(BOT + 1)


async def test_newer_call_of_a_subject_replaces_the_waiting_one_in_its_place(store: Store) -> None:
    await queue(store, message("card 1", subject="card"), message("other"), message("card 2", subject="card"))
    assert texts(store) == ["card 2", "other"]
    call = store.mail.open.outgoing[1]
    async with store.transaction() as tx:
        tx.telegram.begin(call)
    await queue(store, message("card 3", subject="card"))
    assert texts(store) == ["card 2", "other", "card 3"], "a call that has begun is not changed"


async def test_full_queue_leaves_out_the_oldest_of_the_least_needed_calls_and_counts(path: str) -> None:
    async with await Store.open(path) as store:
        endings = [message(f"{n}", need=Need.ENDING) for n in range(QUEUE_MAX - 1)]
        await queue(store, *endings, message("progress", need=Need.PROGRESS))
        await queue(store, message("late ending", need=Need.ENDING))
        await queue(store, message("one more", need=Need.ENDING), message("request", need=Need.REQUEST))
        assert len(store.mail.open.outgoing) == QUEUE_MAX
        assert texts(store)[-3:] == ["late ending", "one more", "request"]
        assert not {"progress", "0", "1"} & set(texts(store))
        assert await store.telegram.counts() == TelegramCounts(left_out=3)
    async with await Store.open(path) as store, store.transaction() as tx:
        assert await tx.telegram.take_left_out() == {1001: 3}
        assert await tx.telegram.take_left_out() == {}


async def test_call_that_began_is_known_after_a_restart(path: str) -> None:
    async with await Store.open(path) as store:
        await queue(store, message("hello"))
        async with store.transaction() as tx:
            tx.telegram.begin(store.mail.open.outgoing[1])
    async with await Store.open(path) as store:
        assert store.mail.open.outgoing[1].state is EffectState.TAKEN


async def test_dropped_calls_are_counted_and_keep_no_text(store: Store) -> None:
    await queue(store, *(message(f"secret {n}") for n in range(250)))
    async with store.transaction() as tx:
        for call in list(tx.mail.open.outgoing.values()):
            tx.telegram.drop(call, "chat not found")
    assert await store.telegram.counts() == TelegramCounts(dropped=250)
    dropped = await store.telegram.dropped(1000)
    assert len(dropped) == 200
    assert (dropped[0].chat_id, dropped[0].method, dropped[0].reason) == (
        1001,
        "send_message",
        "chat not found",
    )


async def test_migrated_group_keeps_its_calls_and_gets_new_ones(store: Store) -> None:
    await queue(store, message("before", -500), message("other", 7))
    async with store.transaction() as tx:
        tx.telegram.put_chat(TelegramChat(-500, "group", "Fleet"))
        await tx.telegram.migrate_chat(-500, -1_001_000_000_500)
    await queue(store, message("after", -500))
    assert [call.chat_id for call in store.mail.open.outgoing.values()] == [
        -1_001_000_000_500,
        7,
        -1_001_000_000_500,
    ]
    new = TelegramChat(-1_001_000_000_500, "supergroup", "Fleet")
    assert await store.telegram.chats() == [
        new,
        TelegramChat(-500, "group", "Fleet", migrated_to=new.chat_id),
    ]


async def test_migrated_group_keeps_its_topics_and_cards(store: Store) -> None:
    async with store.transaction() as tx:
        tx.telegram.threads.put_topic(Topic("aaaa1111", -500, TopicState.MADE, 1, 77))
        tx.telegram.threads.put_card(ProgressCard("aaaa1111", -500, 78))
        await tx.telegram.migrate_chat(-500, -1_001_000_000_500)
    threads = store.telegram.threads
    assert await threads.session_of_thread(-1_001_000_000_500, 77) == "aaaa1111"
    assert await threads.live_cards() == [ProgressCard("aaaa1111", -1_001_000_000_500, 78)]


async def test_progress_card_keeps_its_message_when_its_text_changes(store: Store) -> None:
    card = ProgressCard("aaaa1111", 7, shown="one")
    async with store.transaction() as tx:
        tx.telegram.threads.put_card(card)
        await tx.telegram.queue(message("one", 7, subject="progress aaaa1111"))
    async with store.transaction() as tx:
        tx.telegram.finish(tx.mail.open.outgoing[1], 501, None)
        tx.telegram.threads.put_card(replace(card, shown="two"))
    assert await store.telegram.threads.live_cards() == [replace(card, message_id=501, shown="two")]
    async with store.transaction() as tx:
        tx.telegram.threads.put_card(replace(card, is_live=False))
    assert await store.telegram.threads.live_cards() == []


async def test_call_that_was_removed_meanwhile_does_not_wait_again(store: Store) -> None:
    await queue(store, replace(message("one"), about="session aaaa1111"))
    call = store.mail.open.outgoing[1]
    async with store.transaction() as tx:
        tx.telegram.forget("aaaa1111")
        tx.telegram.again(call)
    assert texts(store) == []


async def test_removed_session_leaves_no_call_and_no_message(store: Store) -> None:
    about = replace(message("prompt of the session"), about="session aaaa1111")
    await queue(store, about, about, message("other"))
    async with store.transaction() as tx:
        tx.telegram.finish(tx.mail.open.outgoing[1], 501, None)
        tx.telegram.threads.put_topic(Topic("aaaa1111", 7, TopicState.MADE, 1, 77))
        tx.telegram.threads.put_card(ProgressCard("aaaa1111", 7))
        tx.telegram.forget("aaaa1111")
    assert texts(store) == ["other"]
    assert await store.telegram.threads.topic("aaaa1111", 7) is None
    assert await store.telegram.threads.live_cards() == []
    async with store.transaction() as tx:
        assert await tx.read("SELECT 1 FROM telegram_messages", ()) == []


async def test_card_has_the_newest_buttons_only_and_its_draft(store: Store) -> None:
    def buttons(first: int, about: str = "request r1") -> list[TelegramButton]:
        return [
            TelegramButton(f"{about} {n}", 1001, 1001, "x", about, None) for n in range(first, first + 10)
        ]

    draft = CardDraft("request r1", 1001, ("Ä", "2"), (1, 3), 2, 4711)
    async with store.transaction() as tx:
        await tx.telegram.apply(TelegramChange(buttons=buttons(0, "request r2")))
        for step in range(10):
            await tx.telegram.apply(TelegramChange(buttons=buttons(step * 10), drafts=[draft]))
        await tx.telegram.apply(TelegramChange(used=["request r1 99"]))
    found = [await store.telegram.button(f"request r1 {n}") is not None for n in range(100)]
    assert found == [False] * 36 + [True] * 63 + [False]
    assert await store.telegram.button("request r2 0") is not None
    assert await store.telegram.draft("request r1", 1001) == draft
    async with store.transaction() as tx:
        await tx.telegram.apply(TelegramChange(spent=["request r1"]))
    assert not await store.telegram.has_buttons("request r1", 1001)
    assert await store.telegram.has_buttons("request r2", 1001)
    assert await store.telegram.draft("request r1", 1001) == CardDraft("request r1", 1001)
