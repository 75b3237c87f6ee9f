"""Tests of the timers in the database."""

from sm.capabilities.completion.model import CompletionTimer
from sm.core.timers import Timer
from sm.store import Store
from tests.samples import AT, LAUNCH, commit, session

QUIET = Timer("aaaa1111", CompletionTimer.COMPLETION, AT, 10.0, {"text": "all tests päss"})
IDLE = Timer("aaaa1111", CompletionTimer.UNCLEAR, AT)
OTHER = Timer("aaaa2222", CompletionTimer.COMPLETION, AT)


async def set_timers(store: Store, *timers: Timer) -> None:
    async with store.transaction() as tx:
        for timer in timers:
            tx.timers.set(timer)


async def take(store: Store, timer: Timer) -> bool:
    async with store.transaction() as tx:
        return tx.timers.take(timer)


async def test_timers_survive_a_restart(path: str) -> None:
    async with await Store.open(path) as store:
        await set_timers(store, QUIET, OTHER)
    async with await Store.open(path) as store:
        assert store.mail.open.timers == {QUIET.key: QUIET, OTHER.key: OTHER}


async def test_later_timer_of_the_same_kind_replaces_the_first(path: str) -> None:
    later = Timer(QUIET.subject, QUIET.kind, "2026-01-27T16:00:00.000Z")
    async with await Store.open(path) as store:
        await set_timers(store, QUIET)
        await set_timers(store, later)
        assert store.mail.open.timers == {later.key: later}
    async with await Store.open(path) as store:
        assert store.mail.open.timers == {later.key: later}


async def test_timer_is_taken_once(store: Store) -> None:
    await set_timers(store, QUIET)
    assert [await take(store, QUIET) for _ in range(2)] == [True, False]


async def test_timer_is_not_taken_when_another_one_has_replaced_it(store: Store) -> None:
    later = Timer(QUIET.subject, QUIET.kind, "2026-01-27T16:00:00.000Z")
    await set_timers(store, later)
    assert not await take(store, QUIET)
    assert store.mail.open.timers == {later.key: later}


async def test_only_the_named_kinds_of_the_subject_are_removed(store: Store) -> None:
    await set_timers(store, QUIET, IDLE, OTHER)
    async with store.transaction() as tx:
        tx.timers.remove("aaaa1111", CompletionTimer.COMPLETION, CompletionTimer.REMINDER)
    assert set(store.mail.open.timers) == {IDLE.key, OTHER.key}


async def test_removal_of_a_session_removes_its_timers(path: str) -> None:
    async with await Store.open(path) as store:
        gone = session("aaaa1111")
        await commit(store, lambda tx: tx.insert(gone, LAUNCH, None))
        await set_timers(store, QUIET, IDLE, OTHER)
        await commit(store, lambda tx: tx.remove(gone))
    async with await Store.open(path) as store:
        assert set(store.mail.open.timers) == {OTHER.key}
