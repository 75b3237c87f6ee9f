"""The events that the bot reports to the people in chats."""

import time

from sm.core.states import EventType
from sm.services import TelegramLink
from sm.store import Store
from tests.samples import AT, LAUNCH, session
from tests.telegram.conftest import records

BOT = 4242


async def spawned(store: Store, session_id: str) -> None:
    made = session(session_id)
    async with store.transaction() as tx:
        await tx.insert(made, LAUNCH, None)
        await tx.event(EventType.SPAWNED, made, AT, "it was spawned", {})


async def test_bot_reports_at_its_first_start_what_happened_while_it_was_loaded(store: Store) -> None:
    await spawned(store, "aaaa1111")
    before = store.last_seq
    telegram = records(store, TelegramLink(time.monotonic))
    await spawned(store, "bbbb2222")
    assert await telegram.begin_reports(BOT) == before


async def test_bot_goes_on_at_a_later_start_after_the_last_event_that_it_reported(store: Store) -> None:
    await records(store, TelegramLink(time.monotonic)).begin_reports(BOT)
    await spawned(store, "aaaa1111")
    assert await records(store, TelegramLink(time.monotonic)).begin_reports(BOT) == 0
