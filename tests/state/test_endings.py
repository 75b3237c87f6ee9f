"""Parents and children that end by one loss, in any order, without a daemon."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.models import Exit, Process, Session
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.state.losses import CONTAINER_GONE, CUT_OFF, SERVER_GONE, LossCause
from sm.store import Store
from tests.samples import AT, LAUNCH, session
from tests.state_parts import StateParts, open_parts

LEAD, CHILD, DIRECT, ELSEWHERE = "aaaa1111", "bbbb2222", "cccc3333", "dddd4444"


def running(session_id: str, parent: str | None, mode: TrustLevel, pid: int) -> Session:
    made = session(session_id, parent=parent, status=Status.RUNNING)
    return replace(made, effective_mode=mode, process=Process(pid, "boot/1"), started_at=AT)


TEAM = (
    running(LEAD, None, TrustLevel.SANDBOXED, 11),
    running(CHILD, LEAD, TrustLevel.SANDBOXED, 12),
    running(DIRECT, LEAD, TrustLevel.DIRECT, 13),
)


async def insert(store: Store) -> None:
    async with store.transaction() as tx:
        for member in TEAM:
            await tx.insert(member, LAUNCH, None)


async def lose(parts: StateParts, ids: Sequence[str], cause: LossCause, reason: str) -> None:
    for session_id in ids:
        process = next(s.process for s in TEAM if s.id == session_id)
        await parts.ends.terminal_lost(session_id, process, cause, reason, process_gone=True)


def parents(store: Store) -> list[str | None]:
    return [store.sessions[s].parent_id for s in (CHILD, DIRECT)]


@pytest.mark.parametrize("order", [(LEAD, CHILD, DIRECT), (CHILD, LEAD, DIRECT), (DIRECT, CHILD, LEAD)])
async def test_lost_server_leaves_a_team_together_in_any_order(tmp_path: Path, order: Sequence[str]) -> None:
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        await insert(store)
        await lose(parts, order, *SERVER_GONE)
        assert parents(store) == [LEAD, LEAD]


@pytest.mark.parametrize("order", [(LEAD, CHILD), (CHILD, LEAD)])
async def test_lost_engine_releases_only_the_child_that_lives_until_its_parent_is_back(
    tmp_path: Path, order: Sequence[str]
) -> None:
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        await insert(store)
        await lose(parts, order, *CUT_OFF)
        assert parents(store) == [LEAD, None]
        assert store.sessions[DIRECT].lost_parent == LEAD
        async with store.transaction() as tx:  # the lead starts again
            lead = await tx.update(tx.session(LEAD), exit=None)
            await parts.endings.rejoin(tx, lead)
        assert parents(store) == [LEAD, LEAD]
        assert store.sessions[DIRECT].lost_parent is None


@pytest.mark.parametrize("order", [(LEAD, CHILD), (CHILD, LEAD)])
async def test_lost_container_releases_only_children_in_other_containers(
    tmp_path: Path, order: Sequence[str]
) -> None:
    elsewhere = replace(running(ELSEWHERE, LEAD, TrustLevel.SANDBOXED, 14), workspace="other")
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        await insert(store)
        async with store.transaction() as tx:
            await tx.insert(elsewhere, LAUNCH, None)
        for session_id in order:
            process = store.sessions[session_id].process
            await parts.ends.terminal_lost(
                session_id, process, *CONTAINER_GONE, process_gone=True, exit=Exit(None, 9)
            )
            assert store.sessions[session_id].exit == Exit(None, 9)
        assert parents(store) == [LEAD, None]
        released = [store.sessions[s] for s in (DIRECT, ELSEWHERE)]
        assert [(s.parent_id, s.lost_parent) for s in released] == [(None, LEAD)] * 2
        assert store.mail.open.timers == {}, (
            "an agent can end its container: the daemon does not start it again"
        )


@pytest.mark.parametrize("order", [(LEAD, CHILD), (CHILD, LEAD)])
async def test_agents_of_a_lost_container_stay_together_in_any_order(
    tmp_path: Path, order: Sequence[str]
) -> None:
    """A daemon that did not see the end of the container: each agent ends by a signal."""
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        await insert(store)
        for session_id in order:
            process = next(s.process for s in TEAM if s.id == session_id)
            await parts.ends.process_ended(session_id, process, Exit(None, 9))
        assert parents(store) == [LEAD, None]
        assert store.sessions[DIRECT].lost_parent == LEAD
