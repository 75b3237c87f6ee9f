"""The status and its reason of sessions that wait for other sessions, on a real database."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Session
from sm.core.statuses import Status
from sm.sessions import waits as module
from sm.sessions.waits import WaitingSessions, WaitKind
from sm.store import Store
from tests import samples
from tests.state_parts import open_parts
from tests.waits import NEVER_S

CALLER, FIRST, SECOND = "aaaa1111", "bbbb2222", "cccc3333"


@pytest.fixture(params=["claude", "command"])
async def waits(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Store, WaitingSessions]]:
    """A running caller, with turns or without, and two running sessions."""
    async with open_parts(tmp_path, lambda: samples.AT) as (store, parts):
        async with store.transaction() as tx:
            for session_id in (CALLER, FIRST, SECOND):
                session = samples.session(session_id, status=Status.RUNNING)
                provider = request.param if session_id == CALLER else "command"
                await tx.insert(replace(session, provider=provider), samples.LAUNCH, None)
        waiting = WaitingSessions(store, parts.notices, parts.providers)
        running = asyncio.create_task(waiting.run())
        yield store, waiting
        running.cancel()


async def has_reason(store: Store, reason: str) -> Session:
    reached = await store.wait_until(lambda: store.sessions[CALLER].status_reason == reason, NEVER_S)
    assert reached, store.sessions[CALLER]
    return store.sessions[CALLER]


async def test_wait_for_sessions_is_the_reason_of_the_status_while_it_is_held(
    waits: tuple[Store, WaitingSessions],
) -> None:
    store, waiting = waits
    has_turns = store.sessions[CALLER].provider == "claude"
    left = [FIRST, SECOND]
    with waiting.count_wait(CALLER, WaitKind.SESSIONS, lambda: [store.sessions[s] for s in left]):
        held = await has_reason(store, "waits for 2 sessions")
        assert held.status is (Status.RUNNING if has_turns else Status.IDLE)
        names = f"engineer-{FIRST} (running), engineer-{SECOND} (running)"
        assert waiting.activity(CALLER) == f"waits for 2 sessions: {names}"
        left.remove(FIRST)
        async with store.transaction() as tx:  # any change of the store
            await tx.update(tx.session(FIRST), note="done")
        await has_reason(store, "waits for 1 session")
    waiting.end_wait(CALLER, WaitKind.SESSIONS)
    after = await has_reason(store, "no longer waiting")
    assert (after.status, waiting.activity(CALLER)) == (Status.RUNNING, None)


async def test_wait_that_a_daemon_left_behind_is_no_reason_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AFTER_A_RESTART_S", 0.01)
    async with open_parts(tmp_path, lambda: samples.AT) as (store, parts):
        async with store.transaction() as tx:
            session = replace(samples.session(CALLER, status=Status.RUNNING), provider="claude")
            left = replace(session, status_source="wait", status_reason="waits for 2 sessions")
            await tx.insert(left, samples.LAUNCH, None)
        running = asyncio.create_task(WaitingSessions(store, parts.notices, parts.providers).run())
        assert (await has_reason(store, "no longer waiting")).status is Status.RUNNING
        running.cancel()
