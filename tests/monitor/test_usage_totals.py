"""Sums in memory are always those of the database."""

import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from sm.core.usage import Usage
from sm.monitor.usage_totals import UsageTotals
from sm.store import Store
from tests.samples import LAUNCH, session

SESSION = session("aaaa1111")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db")) as opened:
        async with opened.transaction() as tx:
            await tx.insert(SESSION, LAUNCH, None)
        yield opened


def used(number: int, output: int, *, model: str = "opus", sidechain: bool = False) -> Usage:
    return Usage(f"msg_{number}", model, "2026-11-22T10:00:00.000Z", 1, output, 3, 4, 5, sidechain=sidechain)


async def write(store: Store, totals: UsageTotals, usages: Sequence[Usage]) -> None:
    before = await store.measures.usage_of_messages(SESSION.id, {u.message_id for u in usages})
    with totals.writing(SESSION.id, before, usages):
        async with store.transaction() as tx:
            tx.measures.add_usage(SESSION.id, usages)


async def load(store: Store, totals: UsageTotals) -> None:
    mark = totals.mark(SESSION.id)
    totals.keep(SESSION.id, await store.measures.usage(SESSION.id), mark)


def in_order(sums: Sequence[Usage] | None) -> list[Usage]:
    """Sums with usage, because a model that a message no longer has stays in memory with nothing."""
    return sorted((u for u in sums or () if u.context), key=lambda u: (u.model, u.sidechain))


async def test_sums_equal_those_of_the_database_after_random_writes(store: Store) -> None:
    chance, totals = random.Random(1), UsageTotals()
    await load(store, totals)
    for _ in range(100):
        usages = [
            used(
                chance.randint(0, 20),
                chance.randint(0, 50),
                model=chance.choice(["opus", "haiku"]),
                sidechain=chance.random() < 0.3,
            )
            for _ in range(chance.randint(1, 5))
        ]
        await write(store, totals, usages)
        assert in_order(totals.sums(SESSION.id)) == in_order(await store.measures.usage(SESSION.id))


async def test_sums_are_not_kept_when_usage_was_written_during_their_read(store: Store) -> None:
    totals = UsageTotals()
    mark = totals.mark(SESSION.id)
    read = await store.measures.usage(SESSION.id)
    await write(store, totals, [used(1, 5)])
    totals.keep(SESSION.id, read, mark)
    assert totals.sums(SESSION.id) is None
    with totals.writing(SESSION.id, {}, [used(2, 5)]):
        mark = totals.mark(SESSION.id)
    totals.keep(SESSION.id, read, mark)
    assert totals.sums(SESSION.id) is None


async def test_sums_are_unknown_when_a_write_fails(store: Store) -> None:
    totals = UsageTotals()
    await load(store, totals)
    with pytest.raises(ValueError, match="full"), totals.writing(SESSION.id, {}, [used(1, 5)]):
        raise ValueError("full")
    assert totals.sums(SESSION.id) is None
    await load(store, totals)
    assert totals.sums(SESSION.id) == []
    totals.clear()
    assert totals.sums(SESSION.id) is None
