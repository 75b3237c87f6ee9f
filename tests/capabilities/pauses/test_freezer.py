"""Stopping the processes of a paused session."""

from dataclasses import replace
from pathlib import Path

import pytest

from sm.capabilities.pauses.freezer import Freezer, Suspension
from sm.capabilities.pauses.state import Pauses
from sm.core.effects import Effect, EffectKind
from sm.core.models import Process, Session
from sm.core.pause_states import PauseState
from sm.core.pauses import PauseOrder
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.linux.processes import identify
from sm.linux.session_cgroups import SessionCgroups
from sm.store import Store
from tests.linux.child_process import IDLE, Start, start
from tests.linux.session_cgroups import cgroups
from tests.samples import AT, LAUNCH, session
from tests.state_parts import open_parts, with_pauses

__all__ = ["cgroups", "start"]

PROGRAM = replace(session("aaaa1111", status=Status.RUNNING), provider="command", process=Process(7, "b/1"))


class Growing(Suspension):
    """A program that has started one more process at each look. The processes have ended already."""

    def __init__(self, store: Store, pauses: Pauses) -> None:
        super().__init__(store, pauses, Freezer(lambda _: None))
        self.looks = list[int]()

    async def _processes(self, session: Session) -> list[Process]:
        self.looks.append(len(self.looks))
        return [Process(2**22 + number, "b/1") for number in self.looks]


@pytest.mark.processes
async def test_agent_outside_of_the_cgroup_is_not_taken_for_frozen_but_ended(
    cgroups: SessionCgroups, start: Start, tmp_path: Path
) -> None:
    """As in a container: the cgroup of the session, from an earlier process, is empty and so frozen at once."""
    agent = identify(start(*IDLE).pid)
    assert agent is not None
    claude = replace(
        session("bbbb2222", status=Status.RUNNING),
        provider="claude",
        process=agent,
        conversation="c",
        token_hash="t",
        effective_mode=TrustLevel.SANDBOXED,
    )
    cgroup = cgroups.create(claude.id)
    cgroup.freeze()
    freezer = Freezer(cgroups.of)
    assert not await freezer.is_frozen(claude)
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        async with store.transaction() as tx:
            await tx.insert(claude, LAUNCH, None)
            pauses = with_pauses(store, parts)
            await pauses.pause(tx, tx.session(claude.id), PauseOrder("operator", "a test"))
        effects = Suspension(store, pauses, freezer)
        await effects.suspend(Effect(1, EffectKind.SUSPEND, claude.id, {"force": True}))
        after = store.sessions[claude.id].paused
        assert after is not None and (after.state, after.held) == (PauseState.PAUSING, None)
        kills = [e for e in store.mail.open.effects.values() if e.kind == EffectKind.KILL]
        assert [e.payload["pause"] for e in kills] == [True]


@pytest.mark.timeout(20)
async def test_program_that_starts_processes_for_ever_does_not_keep_the_effect_from_ending(
    tmp_path: Path,
) -> None:
    async with open_parts(tmp_path, lambda: AT) as (store, parts):
        async with store.transaction() as tx:
            await tx.insert(PROGRAM, LAUNCH, None)
            pauses = with_pauses(store, parts)
            await pauses.pause(tx, tx.session(PROGRAM.id), PauseOrder("operator", "a test"))
        effects = Growing(store, pauses)
        await effects.suspend(Effect(1, EffectKind.SUSPEND, PROGRAM.id, {}))
        assert len(effects.looks) > 1
