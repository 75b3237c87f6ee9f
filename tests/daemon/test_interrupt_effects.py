"""Stopping the processes of a paused session."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from sm.core.effects import Effect, EffectKind
from sm.core.models import Process, Session
from sm.core.pause_states import PauseState
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.daemon.freezer import Freezer
from sm.daemon.interrupt_effects import InterruptEffects
from sm.linux.processes import identify
from sm.linux.session_cgroups import SessionCgroups
from tests.linux.child_process import IDLE, Start, start
from tests.linux.session_cgroups import cgroups
from tests.samples import AT, LAUNCH, session
from tests.session_manager import open_manager

__all__ = ["cgroups", "start"]

PROGRAM = replace(session("aaaa1111", status=Status.RUNNING), provider="command", process=Process(7, "b/1"))
UNUSED = cast(Any, None)
"""The terminals and the input boxes have no part in this."""


@dataclass(frozen=True)
class Growing(InterruptEffects):
    """A program that has started one more process at each look. The processes have ended already."""

    looks: list[int] = field(default_factory=list)

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
    async with open_manager(tmp_path, lambda: AT) as (store, manager):
        async with store.transaction() as tx:
            await tx.insert(claude, LAUNCH, None)
            await manager.pauses.pause(tx, tx.session(claude.id), by="operator", reason="a test")
        effects = InterruptEffects(store, manager, UNUSED, UNUSED, freezer)
        await effects.suspend(Effect(1, EffectKind.SUSPEND, claude.id, {"force": True}))
        after = store.sessions[claude.id].paused
        assert after is not None and (after.state, after.held) == (PauseState.PAUSING, None)
        kills = [e for e in store.mail.open.effects.values() if e.kind == EffectKind.KILL]
        assert [e.payload["pause"] for e in kills] == [True]


@pytest.mark.timeout(20)
async def test_program_that_starts_processes_for_ever_does_not_keep_the_effect_from_ending(
    tmp_path: Path,
) -> None:
    async with open_manager(tmp_path, lambda: AT) as (store, manager):
        async with store.transaction() as tx:
            await tx.insert(PROGRAM, LAUNCH, None)
            await manager.pauses.pause(tx, tx.session(PROGRAM.id), by="operator", reason="a test")
        effects = Growing(store, manager, UNUSED, UNUSED, Freezer(lambda _: None))
        await effects.suspend(Effect(1, EffectKind.SUSPEND, PROGRAM.id, {}))
        assert len(effects.looks) > 1
