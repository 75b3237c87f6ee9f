"""Reports of usage say the same when sessions are no longer in memory."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from sm.capabilities.usage.kept_parts import TreeSums
from sm.capabilities.usage.operations import ReportScope
from sm.capabilities.usage.reporting import Reporting
from sm.config import Config
from sm.core.models import NO_WORKSPACE, OPERATOR, BridgeUser, Caller, Exit, Session
from sm.core.states import BridgeLevel, CallerKind, EventType, TrustLevel
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.core.usage import FollowUpKind, Usage
from sm.equipment.project_items import ProjectItems
from sm.kernel import OperationCall
from sm.monitor.usage import UsageMeter
from sm.providers import make_providers
from sm.sessions.authorizer import Authorizer
from sm.sessions.spawn_types import SpawnTypes
from sm.sessions.workspaces import Workspaces
from sm.store import Store, Transaction, history
from sm.wire_types.usage_answers import Grouping, UsageReportView
from tests.samples import AT, LAUNCH, commit, session

DAY = 86_400.0
NOW = later(AT, 30 * DAY)
COUNT = 60
LIVE = "live0001"
CALLERS = {
    "operator": OPERATOR,
    "agent": Caller(CallerKind.SESSION, LIVE),
    "paired user": Caller(CallerKind.BRIDGE, user=BridgeUser("telegram:1", BridgeLevel.DIRECT)),
}
SINCE = (None, later(NOW, -12.3 * DAY))
ENDINGS = (Status.COMPLETED, Status.ERROR, Status.KILLED)


def made(number: int, chance: random.Random) -> Session:
    """An old session that the operator has seen. One in three is below the live one, or below another old one."""
    created, ended = later(NOW, -(29 - number / 3) * DAY), later(NOW, -(28.9 - number / 3) * DAY)
    parent = chance.choice((None, None, LIVE, *(f"{n:08x}" for n in range(number))))
    status = chance.choice(ENDINGS)
    return replace(
        session(f"{number:08x}", parent=parent, status=status),
        agent_type=chance.choice(("Engineer", "Explore")),
        provider=chance.choice(("claude", "command")),
        account=chance.choice((None, "work")),
        effective_mode=chance.choice([*TrustLevel]),
        paired_user=chance.choice((None, "telegram:1")),
        workspace=chance.choice((None, None, "shop")),
        exit=Exit(0),
        created_at=created,
        started_at=created,
        status_at=ended,
        completed_at=ended,
        seen_at=ended,
        worked_s=chance.random() * 1000,
    )


def record(tx: Transaction, chance: random.Random, old: Session) -> None:
    models = ("claude-opus-4-8", "claude-haiku-4-5", "unknown-1")
    times = ("", old.created_at, later(old.status_at, chance.random() * 20 * DAY))
    tx.usage.add(
        old.id,
        [
            Usage(str(n), chance.choice(models), chance.choice(times), n, 100 * n, 20, 8, sidechain=n == 2)
            for n in range(chance.randrange(4))
        ],
    )
    tx.sums.add_work(old.id, old.created_at, chance.random() * 5000)
    tx.sums.add_follow_up(old.id, chance.choice([*FollowUpKind]), old.status_at)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    chance = random.Random(7)
    async with await Store.open(str(tmp_path / "sm.db"), lambda: NOW) as opened:
        async with opened.transaction() as tx:
            await tx.insert(replace(session(LIVE), created_at=NOW), LAUNCH, None)
            for number in range(COUNT):
                old = made(number, chance)
                await tx.insert(old, LAUNCH, None)
                record(tx, chance, old)
                await tx.event(EventType(old.status), old, old.status_at, "ended", {})
        yield opened


@pytest.fixture
def reporting(store: Store) -> Reporting:
    config = Config()
    authorizer, providers = Authorizer(store, lambda *_: None), make_providers(config)
    sums = TreeSums(config, store, UsageMeter(store, config, lambda: NOW), authorizer, providers)
    workspaces = Workspaces(store, authorizer, cast(SpawnTypes, None), cast(ProjectItems, None))
    return Reporting(store, authorizer, providers, workspaces, sums)


def scopes() -> Iterator[ReportScope]:
    for by in Grouping:
        for since in SINCE:
            for workspace in (None, NO_WORKSPACE):
                yield ReportScope(by, since, workspace)


async def reports(reporting: Reporting) -> dict[str, UsageReportView]:
    found = {}
    for name, caller in CALLERS.items():
        for scope in scopes():
            call = OperationCall(caller, "", scope, None)
            found[f"{name} {scope}"] = await reporting.report(call)
    return found


def concerning_operator(store: Store) -> list[Session]:
    """The old sessions that stay in memory until the operator has seen them."""
    return [
        s
        for s in store.sessions.values()
        if s.parent_id is None and s.status in (Status.COMPLETED, Status.ERROR)
    ]


async def mark(store: Store, sessions: Iterable[Session], seen_at: str | None) -> None:
    async with store.transaction() as tx:
        for old in sessions:
            await tx.update(tx.session(old.id), seen_at=seen_at)


async def total(reporting: Reporting) -> int:
    call = OperationCall(OPERATOR, "", ReportScope(), None)
    return (await reporting.report(call)).total.sessions


@pytest.mark.parametrize("chunk", [8, 200])
async def test_reports_are_the_same_when_sessions_have_left_memory(
    store: Store, reporting: Reporting, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(history, "CHUNK", chunk)
    before = await reports(reporting)
    assert len(store.memory.forget_old()) == COUNT
    for _ in range(2):  # the second time from what is remembered
        assert await reports(reporting) == before


async def test_session_counts_once_when_it_leaves_memory_or_is_removed_after_a_report(
    store: Store, reporting: Reporting
) -> None:
    store.memory.unseen_s = 365 * DAY
    some = concerning_operator(store)[:5]
    await mark(store, some, None)
    left = len(store.memory.forget_old())
    assert 0 < left < COUNT
    before = await reports(reporting)
    await mark(store, some, NOW)
    assert store.memory.forget_old()
    assert await reports(reporting) == before
    whole = await total(reporting)
    past = await store.history.all()
    alone = next(s for s in past if s.id not in {child.parent_id for child in past})
    await commit(store, lambda tx: tx.remove(alone))
    assert await total(reporting) == whole
    found = await reporting.report(OperationCall(OPERATOR, "", ReportScope(), None))
    assert found.total.removed == 1


@pytest.mark.parametrize("first", [False, True])
async def test_session_counts_once_when_it_leaves_memory_during_a_report(
    store: Store, reporting: Reporting, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    monkeypatch.setattr(history, "CHUNK", 8)
    whole = await total(reporting)
    some = concerning_operator(store)
    await mark(store, some, None)
    store.memory.unseen_s = 365 * DAY
    store.memory.forget_old()
    if first:
        await reporting.reconfigure()
    begun, left, read = asyncio.Event(), asyncio.Event(), store.history.parts

    async def parts(chosen: history.Chosen) -> AsyncIterator[list[Session]]:
        async for part in read(chosen):
            yield part
            begun.set()
            await left.wait()

    monkeypatch.setattr(store.history, "parts", parts)
    report = asyncio.create_task(total(reporting))
    await begun.wait()
    resets = store.history.resets
    await mark(store, some, NOW)
    assert store.memory.forget_old()
    assert store.history.resets == resets
    left.set()
    assert await report == whole
    assert await total(reporting) == whole
