"""Limits inside a transaction, on a real SQLite file."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sm.config import Limits
from sm.core.messages import Message
from sm.core.models import OPERATOR, Caller, Session
from sm.core.states import CallerKind, EventType, MessageMode, MessageState
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.errors import LimitReached, RateLimited
from sm.state.quota import Quota
from sm.store import Store
from tests.samples import AT, LAUNCH, commit, session

PARENT = session("aaaa1111", status=Status.RUNNING)
PARENT_CALLER = Caller(CallerKind.SESSION, PARENT.id)
OTHER = session("bbbb1111", status=Status.RUNNING)
OTHER_CALLER = Caller(CallerKind.SESSION, OTHER.id)


LIMITS = Limits(spawn_interval_s=0.0, messages_per_minute=3, reports_per_minute=3)


def set_to(**values: float) -> Limits:
    return LIMITS.model_copy(update=values)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sm.db")


@pytest.fixture
async def store(path: str) -> AsyncIterator[Store]:
    async with await Store.open(path) as opened:
        await commit(opened, lambda tx: tx.insert(PARENT, LAUNCH, None))
        await commit(opened, lambda tx: tx.insert(OTHER, LAUNCH, None))
        yield opened


async def born(
    store: Store, bounds: Limits, session_id: str, *, after_s: float = 0, caller: Caller = PARENT_CALLER
) -> Session:
    """Insert a child of PARENT that starts `after_s` later, and count it like a spawn."""
    at = later(AT, after_s)
    child = replace(session(session_id, parent=PARENT.id, status=Status.RUNNING), created_at=at)
    async with store.transaction() as tx:
        await Quota(bounds).check_spawn(tx, caller, child)
        await tx.insert(child, LAUNCH, None)
        await tx.event(EventType.SPAWNED, child, at, "spawned", {})
    return child


async def sent(store: Store, bounds: Limits, caller: Caller = PARENT_CALLER, *, after_s: float = 0) -> None:
    at = later(AT, after_s)
    async with store.transaction() as tx:
        await Quota(bounds).check_message(tx, caller, at)
        message = Message(
            tx.mail.new_id("messages"),
            PARENT.id,
            caller.session_id or "operator",
            MessageMode.AUTO,
            MessageState.QUEUED,
            at,
            at,
        )
        tx.mail.add_message(message, "x")


async def test_child_limit_holds_when_spawns_share_a_commit(store: Store) -> None:
    spawns = [born(store, LIMITS, f"cccc{n:04x}") for n in range(30)]
    results = await asyncio.gather(*spawns, return_exceptions=True)
    assert sum(isinstance(result, Session) for result in results) == 10
    assert sum(isinstance(result, LimitReached) for result in results) == 20
    assert sum(s.parent_id == PARENT.id for s in store.sessions.values()) == 10


async def test_spawn_interval_admits_one_spawn_when_several_come_at_the_same_time(store: Store) -> None:
    bounds = set_to(spawn_interval_s=1.0)
    results = await asyncio.gather(
        *(born(store, bounds, f"cccc{n:04x}") for n in range(5)), return_exceptions=True
    )
    assert [type(result) for result in results] == [Session] + 4 * [RateLimited]
    with pytest.raises(RateLimited) as raised:
        await born(store, bounds, "dddd0001", after_s=0.27)
    assert raised.value.retry_after_s == pytest.approx(0.73)
    await born(store, bounds, "dddd0002", after_s=1.0)
    with pytest.raises(RateLimited):
        await born(store, bounds, "dddd0003", after_s=1.999)
    await born(store, bounds, "dddd0004", after_s=1.999, caller=OPERATOR)
    with pytest.raises(RateLimited):  # the child of the operator is the newest now
        await born(store, bounds, "dddd0005", after_s=2.5)


async def test_spawn_interval_does_not_block_when_clock_was_set_back(store: Store) -> None:
    bounds = set_to(spawn_interval_s=1.0)
    await born(store, bounds, "cccc0001", after_s=3600)
    await born(store, bounds, "cccc0002", after_s=0)
    with pytest.raises(RateLimited):  # the interval applies again
        await born(store, bounds, "cccc0003", after_s=0.5)


@pytest.mark.parametrize("change", ["removed", "moved"])
async def test_spawn_interval_counts_a_removed_or_moved_child(store: Store, change: str) -> None:
    bounds = set_to(spawn_interval_s=1.0)
    child = await born(store, bounds, "cccc0001")
    async with store.transaction() as tx:
        if change == "removed":
            await tx.remove(child)
        else:
            await tx.update(child, parent_id=None)
    with pytest.raises(RateLimited):
        await born(store, bounds, "cccc0002", after_s=0.5)


async def test_message_limit_uses_a_sliding_minute(store: Store) -> None:
    for after_s in (0.0, 20.0, 40.0):
        await sent(store, LIMITS, after_s=after_s)
    for after_s, left_s in ((40, 20), (59.5, 0.5)):
        with pytest.raises(RateLimited) as raised:
            await sent(store, LIMITS, after_s=after_s)
        assert raised.value.retry_after_s == pytest.approx(left_s)
    await sent(store, LIMITS, after_s=60)
    with pytest.raises(RateLimited) as raised:
        await sent(store, LIMITS, after_s=60)
    assert raised.value.retry_after_s == pytest.approx(20)


async def test_message_limit_applies_per_sender_and_not_to_the_operator(store: Store) -> None:
    for caller in (PARENT_CALLER, OTHER_CALLER, OPERATOR):
        for _ in range(3):
            await sent(store, LIMITS, caller)
    for caller in (PARENT_CALLER, OTHER_CALLER):
        with pytest.raises(RateLimited):
            await sent(store, LIMITS, caller)
    await sent(store, LIMITS, OPERATOR)


async def reported(store: Store, quota: Quota, reporter: Session, *, after_s: float = 0) -> None:
    async with store.transaction():
        quota.check_report(reporter, later(AT, after_s))


async def test_report_limit_uses_a_sliding_minute_of_each_session(store: Store) -> None:
    quota = Quota(LIMITS)
    for after_s in (0.0, 20.0, 40.0):
        await reported(store, quota, PARENT, after_s=after_s)
    with pytest.raises(RateLimited, match="3 checkpoints and notes per minute") as raised:
        await reported(store, quota, PARENT, after_s=40)
    assert raised.value.retry_after_s == pytest.approx(20)
    await reported(store, quota, OTHER, after_s=40)
    await reported(store, quota, PARENT, after_s=60)
    with pytest.raises(RateLimited):
        await reported(store, quota, PARENT, after_s=79)


async def test_report_limit_does_not_block_when_clock_was_set_back(store: Store) -> None:
    quota = Quota(LIMITS)
    for _ in range(3):
        await reported(store, quota, PARENT, after_s=3600)
    await reported(store, quota, PARENT)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (
            "SELECT timestamp FROM events WHERE type = 'spawned' AND parent_session_id = ? ORDER BY seq DESC LIMIT 1",
            "events_of_births",
        ),
        (
            "SELECT created_at FROM messages WHERE sender = ? ORDER BY id DESC LIMIT 1 OFFSET 119",
            "messages_of_sender",
        ),
    ],
)
async def test_quota_query_uses_an_index(store: Store, path: str, query: str, index: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}", ("x",))]
    db.close()
    assert len(plan) == 1, plan
    assert f"USING INDEX {index}" in plan[0]
