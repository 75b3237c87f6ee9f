"""Sums and samples of sessions in a real database."""

from dataclasses import replace
from pathlib import Path

from sm.capabilities.usage.tree_sums import TreeSums
from sm.config import Config
from sm.core.estimates import estimate_totals
from sm.core.models import Exit, Session
from sm.core.percentiles import Spread
from sm.core.statuses import Status
from sm.core.timestamps import later
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
