"""Measures what ten budgets above a session add to the transaction that stores its usage."""

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace

from bench.instance import ended_session
from bench.row import Effort, Judged, Pairs, Row
from sm.capabilities.budgets.model import Amounts, Budget
from sm.capabilities.budgets.settings import BudgetSettings
from sm.capabilities.budgets.state.charges import Budgets
from sm.capabilities.budgets.tables import PART
from sm.config import Config
from sm.core.models import Launch, Session
from sm.core.statuses import Status
from sm.core.usage import FilePosition, Usage
from sm.providers import make_providers
from sm.state.notices import Notices
from sm.store import Store

_ABOVE = 10
_TIMES = 3
"""Repetitions for each pair of the effort: a transaction takes a few milliseconds."""


def measure(effort: Effort) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="sm-bench-") as home:
        pairs = asyncio.run(_measured(f"{home}/sm.db", effort.pairs * _TIMES))
    what = f"a row of usage is added to the budgets of {_ABOVE} sessions above"
    yield pairs.row(what, "the same transaction without budgets", Judged.RATIO, 1.2, None)


async def _measured(path: str, times: int) -> Pairs:
    config = Config()
    providers = make_providers(config)
    notices = Notices(config)
    numbers = itertools.count()
    ours, floor = list[float](), list[float]()
    async with await Store.open(path) as store:
        budgets = Budgets(BudgetSettings(), store.part(PART), notices, providers)
        bound, free = await _prepare(store)
        for number in range(times + 1):
            for session_id, results in ((bound, ours), (free, floor)):
                begin = time.perf_counter()
                await _add(store, budgets, session_id, next(numbers))
                if number:  # the first one is not counted
                    results.append((time.perf_counter() - begin) * 1000)
    return Pairs(ours, floor)


async def _add(store: Store, budgets: Budgets, session_id: str, number: int) -> None:
    """Run the transaction of `UsageMeter` for a new message of an agent. The meter reads the stored usage before it."""
    used = [Usage(f"msg_{number}", "claude-opus-4-8", "2026-01-27T15:10:00.000Z", 10, 200, 30_000, 400)]
    async with store.transaction() as tx:
        tx.measures.set_position(session_id, "/home/user/transcript.jsonl", FilePosition(1, number))
        await budgets.follow_usage(tx, tx.session(session_id), used, {})
        tx.usage.add(session_id, used)
        tx.measures.facts(session_id, {"context_tokens": number})


async def _prepare(store: Store) -> tuple[str, str]:
    """Two chains of sessions; return their last ones. The first one has a budget above each of its sessions."""
    chains = [[_session(_ABOVE * 2 * n + k) for k in range(_ABOVE + 1)] for n in range(2)]
    async with store.transaction() as tx:
        for chain in chains:
            parent = None
            for session in chain:
                await tx.insert(replace(session, parent_id=parent), Launch(("claude",), "/", {}, {}), None)
                parent = session.id
        for session in chains[0][:-1]:
            tx.part(PART).put(Budget(session.id, Amounts(usd=1e6, tokens=10**12)))
    return chains[0][-1].id, chains[1][-1].id


def _session(number: int) -> Session:
    made = ended_session(number, "/home/user/projects/shop")
    return replace(made, status=Status.RUNNING, exit=None, provider="claude")
