"""Old rows and texts are deleted once no reader can reach them, and nothing else is."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from sm.core.effects import EffectKind
from sm.core.messages import INBOX, SM_ITSELF, TERMINAL, Message, Notice
from sm.core.requests import Request
from sm.core.states import MessageMode, MessageState, NoticeKind, RequestKind, RequestState
from sm.core.telegram_model import BotMethod, CardDraft, NewCall, TelegramButton, TelegramChange
from sm.store import Store
from tests.samples import AT, LAUNCH, session

CHILD = session("aaaa1111")
LATER = "2026-03-01T00:00:00.000Z"


@pytest.fixture
async def store(store: Store) -> Store:
    async with store.transaction() as tx:
        await tx.insert(CHILD, LAUNCH, None)
    return store


def rows(path: str, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


async def add_notice(
    store: Store, state: str, *, message: MessageState | None = None, via: str = TERMINAL
) -> None:
    """A notice in `state`; `message`: the state of the message that contains it."""
    async with store.transaction() as tx:
        number = tx.mail.new_id("notices")
        notice = Notice(number, CHILD.id, None, NoticeKind.IDLE, f"idle:{number}", "its words", AT)
        assert await tx.mail.add_notice(notice)
        if message is not None:
            sent = Message(number, None, SM_ITSELF, MessageMode.AUTO, message, AT, AT, via=via)
            tx.mail.add_message(sent, "its words")
        if state != "pending":
            tx.mail.finish_notices([notice], state, None if message is None else number)


@pytest.mark.parametrize(
    ("state", "message", "via", "text"),
    [
        ("pending", None, INBOX, "its words"),
        ("heard", None, INBOX, ""),
        ("dropped", None, INBOX, ""),
        ("sent", MessageState.ACKNOWLEDGED, TERMINAL, ""),
        ("sent", MessageState.SUBMITTED, INBOX, ""),
        # These messages may still be lost, and their notices be reported again.
        ("sent", MessageState.SUBMITTED, TERMINAL, "its words"),
        ("sent", MessageState.QUEUED, INBOX, "its words"),
        ("sent", MessageState.DELIVERING, INBOX, "its words"),
        ("sent", MessageState.UNCONFIRMED, TERMINAL, "its words"),
    ],
)
async def test_prune_deletes_the_text_of_a_notice_that_is_never_sent_again(
    store: Store, path: str, state: str, message: MessageState | None, via: str, text: str
) -> None:
    await add_notice(store, state, message=message, via=via)
    await store.prune(AT)
    assert rows(path, "SELECT text FROM notices") == [("its words",)]  # not older than that time
    await store.prune(LATER)
    assert rows(path, "SELECT text FROM notices") == [(text,)]
    texts = [("its words",)] if message else []
    assert rows(path, "SELECT text FROM messages") == texts
    async with store.transaction() as tx:  # the occasion stays known
        again = Notice(99, CHILD.id, None, NoticeKind.IDLE, "idle:1", "again", AT)
        assert not await tx.mail.add_notice(again)


async def test_prune_deletes_finished_effects_and_keeps_failed_and_open_ones(store: Store, path: str) -> None:
    async with store.transaction() as tx:
        for _ in range(4):
            await tx.effect(EffectKind.INTERRUPT, CHILD.id, {}, AT)
        done, dead, taken, _ = tx.effects
        await tx.finish(done)
        await tx.finish(dead, dead="it failed")
        await tx.take(taken)
    await store.prune(AT)
    assert len(rows(path, "SELECT id FROM outbox")) == 4
    await store.prune(LATER)
    assert rows(path, "SELECT state FROM outbox ORDER BY id") == [("dead",), ("taken",), ("pending",)]
    assert await store.dead_letters() == 1


@pytest.mark.parametrize(
    ("ends", "failure"),
    [
        ([], None),
        ([None], None),
        (["the disk", None], None),
        ([None, "the disk"], (CHILD.id, "the disk")),
        (["the disk", "a link", "pending"], (CHILD.id, "a link")),
    ],
)
async def test_last_failure_of_an_archive_is_known_until_a_later_archive_is_written(
    store: Store, ends: list[str | None], failure: tuple[str, str] | None
) -> None:
    async with store.transaction() as tx:
        for end in ends:
            await tx.effect(EffectKind.ARCHIVE, CHILD.id, {}, AT)
            if end != "pending":
                await tx.finish(tx.effects[-1], dead=end)
        await tx.effect(EffectKind.CLOSE, CHILD.id, {}, AT)
        await tx.finish(tx.effects[-1])
    for _ in range(2):
        assert await store.last_failure(EffectKind.ARCHIVE) == failure
        await store.prune(LATER)


async def test_prune_forgets_old_messages_of_telegram_but_the_first_of_a_session_and_open_cards(
    store: Store, path: str
) -> None:
    shown = [
        "session aaaa1111",
        "session aaaa1111",
        "request r1",
        "request r2",
        "reply x",
        "message 7",
        "topic 1",
    ]
    async with store.transaction() as tx:
        for number, state in ((1, RequestState.OPEN), (2, RequestState.EXPIRED)):
            tx.mail.add_request(Request(number, CHILD.id, RequestKind.PERMISSION, state, AT, AT))
            about = f"request r{number}"
            button = TelegramButton(about, 1001, 1001, "approve", about, None)
            await tx.telegram.apply(TelegramChange(buttons=[button], drafts=[CardDraft(about, 1001)]))
        for number, about in enumerate(shown):
            await tx.telegram.queue(NewCall(1001, BotMethod.SEND_MESSAGE, {"text": "x"}, about=about))
            tx.telegram.finish(next(iter(tx.mail.open.outgoing.values())), number, None)
    query = "SELECT about FROM telegram_messages ORDER BY message_id"
    await store.prune(AT)
    assert [about for (about,) in rows(path, query)] == shown  # not older than that time
    for table in ("telegram_buttons", "telegram_drafts"):
        assert rows(path, f"SELECT about FROM {table}") == [("request r1",)]  # noqa: S608
    await store.prune("2999-01-01T00:00:00.000Z")
    assert [about for (about,) in rows(path, query)] == ["session aaaa1111", "request r1", "topic 1"]


async def test_effect_ids_are_not_used_again_after_prune(path: str) -> None:
    async with await Store.open(path) as store:
        async with store.transaction() as tx:
            await tx.insert(CHILD, LAUNCH, None)
            await tx.effect(EffectKind.INTERRUPT, CHILD.id, {}, AT)
            await tx.finish(tx.effects[0])
        await store.prune(LATER)
    async with await Store.open(path) as store, store.transaction() as tx:
        await tx.effect(EffectKind.INTERRUPT, CHILD.id, {}, AT)
        assert tx.effects[0].id == 2
