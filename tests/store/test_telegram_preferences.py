"""Preferences of chats on a real SQLite file."""

from sm.store import Store
from sm.store.telegram_preferences import EVERYTHING
from tests.samples import LAUNCH, session

CHILD = session("aaaa1111")
NOW = "2026-03-01T12:00:00.000Z"
LATER = "2026-03-01T13:00:00.000Z"


async def test_chat_follows_a_session_until_it_ends_that_or_the_session_is_removed(store: Store) -> None:
    async with store.transaction() as tx:
        await tx.insert(CHILD, LAUNCH, None)
        for chat_id in (1001, 1001, -7, 1002):
            tx.chat_preferences.follow(chat_id, CHILD.id)
        tx.chat_preferences.unfollow(1002, CHILD.id)
        await tx.telegram.migrate_chat(-7, -1_000_000_000_007)
    assert await store.chat_preferences.followers(CHILD.id) == {1001, -1_000_000_000_007}
    assert await store.chat_preferences.followers("bbbb2222") == frozenset()
    async with store.transaction() as tx:
        tx.chat_preferences.mute(1001, CHILD.id, LATER)
        await tx.remove(CHILD)
    assert await store.chat_preferences.followers(CHILD.id) == frozenset()
    assert not await store.chat_preferences.is_muted(1001, CHILD.id, NOW)


async def test_mute_holds_for_a_session_or_for_all_until_its_time(store: Store) -> None:
    preferences = store.chat_preferences
    async with store.transaction() as tx:
        tx.chat_preferences.mute(1001, CHILD.id, LATER)
        tx.chat_preferences.mute(1002, EVERYTHING, LATER)
    assert await preferences.is_muted(1001, CHILD.id, NOW)
    assert not await preferences.is_muted(1001, CHILD.id, LATER)
    assert not await preferences.is_muted(1001, "bbbb2222", NOW)
    assert await preferences.is_muted(1002, "bbbb2222", NOW)
    async with store.transaction() as tx:
        tx.chat_preferences.mute(1002, EVERYTHING, None)
    assert not await preferences.is_muted(1002, "bbbb2222", NOW)
    await store.prune(LATER)
    assert await preferences.is_muted(1001, CHILD.id, NOW), "a mute that has just expired is kept"
    await store.prune("2026-03-01T13:00:00.001Z")
    assert not await preferences.is_muted(1001, CHILD.id, NOW)
