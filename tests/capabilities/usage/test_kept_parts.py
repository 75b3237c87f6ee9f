"""Sums and samples of sessions in a real database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from sm.capabilities.usage.kept_parts import TreeSums
from sm.config import Config
from sm.core.estimates import Spread, estimate_totals
from sm.core.models import OPERATOR, Exit, Session
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.core.usage import Usage
from sm.monitor.usage import UsageMeter
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.store.sums import RemovedSums
from tests.samples import AT, LAUNCH, session


def completed(number: int, model: str) -> Session:
    made = session(f"{number:08x}", status=Status.COMPLETED)
    return replace(made, model=model, started_at=AT, completed_at=later(AT, number))


def tree_sums(store: Store) -> TreeSums:
    authorizer = Authorizer(store, lambda *_: None)
    return TreeSums(Config(), store, UsageMeter(store, Config(), lambda: AT), authorizer, {})


async def test_samples_include_a_model_that_newer_sessions_did_not_use(tmp_path: Path) -> None:
    sessions = [completed(number, "opus" if number <= 7 else "haiku") for number in range(1, 61)]
    async with await Store.open(str(tmp_path / "sm.db"), lambda: AT) as store:
        async with store.transaction() as tx:
            for made in sessions:
                await tx.insert(made, LAUNCH, None)
        sums = tree_sums(store)
        samples = await sums.samples("Engineer")
    estimate, newest = estimate_totals(samples, "opus"), estimate_totals(samples, "haiku")
    assert estimate is not None
    assert newest is not None
    assert (estimate.samples, estimate.seconds) == (7, Spread(4, 7))
    assert (newest.samples, newest.seconds) == (50, Spread(35, 55))


async def test_session_that_lived_between_two_reads_counts_with_the_removed_ones(tmp_path: Path) -> None:
    async with await Store.open(str(tmp_path / "sm.db"), lambda: AT) as store:
        sums = tree_sums(store)
        await sums.refresh()
        made = replace(completed(7, "opus"), exit=Exit(0))
        async with store.transaction() as tx:
            await tx.insert(made, LAUNCH, None)
        async with store.transaction() as tx:
            await tx.remove(made)
        await sums.refresh()
        assert [(s.id, type(s)) for s in sums.sessions()] == [(made.id, RemovedSums)]
        assert sums.own(made.id).removed == 1


async def insert(store: Store, *sessions: Session) -> None:
    async with store.transaction() as tx:
        for made in sessions:
            await tx.insert(made, LAUNCH, None)


def ended(session_id: str, parent: str | None = None) -> Session:
    """A session that has ended now, and that the operator has seen."""
    made = replace(session(session_id, parent=parent, status=Status.COMPLETED), exit=Exit(0))
    return replace(made, completed_at=AT, seen_at=AT, worked_s=60.0)


class Clocked:
    """A store whose clock the test sets, with two live sessions."""

    def __init__(self) -> None:
        self.now = AT

    @asynccontextmanager
    async def open(self, tmp_path: Path) -> AsyncIterator[Store]:
        async with await Store.open(str(tmp_path / "sm.db"), lambda: self.now) as store:
            await insert(store, session("live0001"), session("live0002"))
            yield store

    def leave(self, store: Store, *session_ids: str) -> None:
        """Let the sessions leave memory."""
        self.now = later(self.now, 2 * 86_400)
        assert {*session_ids} <= {*store.memory.forget_old()}


async def numbers(sums: TreeSums) -> list[tuple[int, int, int]]:
    """The sessions, live sessions and seconds of work of both trees."""
    of = await sums.sums(OPERATOR, ())
    return [(tree.sessions, tree.live, tree.worked_ms // 1000) for tree in (of("live0001"), of("live0002"))]


async def test_session_that_began_ended_and_left_memory_between_two_reads_counts(tmp_path: Path) -> None:
    clocked = Clocked()
    async with clocked.open(tmp_path) as store:
        sums = tree_sums(store)
        assert await numbers(sums) == [(1, 1, 0), (1, 1, 0)]
        await insert(store, ended("new00001", "live0001"), ended("new00002", "new00001"), ended("new00003"))
        clocked.leave(store, "new00001", "new00002", "new00003")
        assert await numbers(sums) == [(3, 1, 120), (1, 1, 0)]
        assert {s.id for s in sums.sessions()} == {"live0001", "live0002", "new00001", "new00002"}


async def test_session_that_changed_and_left_memory_between_two_reads_counts_as_it_ended(
    tmp_path: Path,
) -> None:
    clocked = Clocked()
    async with clocked.open(tmp_path) as store:
        sums = tree_sums(store)
        await insert(store, session("new00001", parent="live0001"))
        assert await numbers(sums) == [(2, 2, 0), (1, 1, 0)]
        async with store.transaction() as tx:
            await tx.remove(replace(tx.session("new00001"), exit=Exit(0)))
        await insert(store, ended("new00002", "live0001"))
        assert await numbers(sums) == [(2, 1, 60), (1, 1, 0)]
        async with store.transaction() as tx:
            await tx.update(tx.session("new00002"), worked_s=3600.0)
        clocked.leave(store, "new00002")
        assert await numbers(sums) == [(2, 1, 3600), (1, 1, 0)]


async def test_session_that_moved_while_it_was_old_counts_below_its_new_parent(tmp_path: Path) -> None:
    clocked = Clocked()
    async with clocked.open(tmp_path) as store:
        sums = tree_sums(store)
        await insert(store, ended("old00001", "live0001"))
        clocked.leave(store, "old00001")
        assert await numbers(sums) == [(2, 1, 60), (1, 1, 0)]
        async with store.transaction() as tx:
            await tx.update(tx.session("old00001"), parent_id="live0002")
        clocked.leave(store, "old00001")
        assert await numbers(sums) == [(1, 1, 0), (2, 1, 60)]


async def test_usage_that_is_counted_after_a_session_left_memory_counts(tmp_path: Path) -> None:
    clocked = Clocked()
    async with clocked.open(tmp_path) as store:
        sums = tree_sums(store)
        await insert(store, ended("old00001", "live0001"))
        clocked.leave(store, "old00001")
        await numbers(sums)
        async with store.transaction() as tx:
            tx.usage.add("old00001", [Usage("m", "opus", AT, 1, 2)])
        sums._measured.add("old00001")  # as the meter does
        of = await sums.sums(OPERATOR, ())
        assert of("live0001").tokens.used == 3
