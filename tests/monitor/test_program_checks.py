"""Programs of agents are checked once, in the background, and what is broken is told."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.core.models import Process, Session
from sm.core.observation import Source
from sm.core.states import TrustLevel
from sm.linux.processes import identify, program_of
from sm.monitor.program_checks import ProgramChecks
from sm.providers.checks import CheckRecords
from sm.providers.readers import AcceptedInput
from tests import samples
from tests.providers.test_checks import checked

UNCHECKED = "it is not checked whether sm and this claude understand each other"
PROMPT = AcceptedInput("go on", 0.0)


class OwnProvider:
    """A provider whose agent CLI is the Python of this test."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.checks_programs = True

    def is_own_program(self, path: str) -> bool:
        return path == self.program


class CheckedWorld:
    """Live sessions whose program is the Python of this test, and a check that keeps outcomes."""

    def __init__(self, directory: Path) -> None:
        own = identify(os.getpid())
        assert own is not None
        self.program = program_of(own) or ""
        self.session = self.live("0a0a0a0a", own)
        self.records = CheckRecords(str(directory))
        self.sessions = {self.session.id: self.session}
        self.provider = OwnProvider(self.program)
        self.has_outcome = True
        self.runs: list[tuple[str, str]] = []
        self.checks = ProgramChecks(
            cast(Any, SimpleNamespace(sessions=self.sessions)),
            self.records,
            {"claude": cast(Any, self.provider)},
            self.run_check,
        )

    @staticmethod
    def live(session_id: str, process: Process, mode: TrustLevel = TrustLevel.DIRECT) -> Session:
        return replace(samples.session(session_id), provider="claude", process=process, effective_mode=mode)

    async def run_check(self, provider: str, path: str) -> None:
        self.runs.append((provider, path))
        if self.has_outcome:
            self.records.save(provider, checked(Path(path)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.checks.run())
        await asyncio.sleep(0)  # the task begins
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def settled(self) -> None:
        """Wait until every program that is due was looked at."""
        await self.checks.join()


@pytest.fixture
def world(tmp_path: Path) -> CheckedWorld:
    return CheckedWorld(tmp_path / "checks")


async def test_program_without_an_outcome_is_checked_once(world: CheckedWorld) -> None:
    assert world.checks.facts(world.session) == [UNCHECKED]
    async with world.running():
        await world.settled()
        await world.checks.prompt_accepted(world.session.id, PROMPT, Source.HOOK)
        await world.settled()
    assert world.runs == [("claude", world.program)]
    told = "claude 1.2.3, checked on 2026-11-29: 1 of 2 contracts does not hold: plan"
    assert world.checks.facts(world.session) == world.checks.trouble() == [told]


async def test_new_agent_is_looked_at_when_it_accepts_its_prompt(world: CheckedWorld) -> None:
    world.sessions.clear()
    async with world.running():
        await world.settled()
        assert not world.runs
        world.sessions[world.session.id] = world.session
        await world.checks.prompt_accepted(world.session.id, PROMPT, Source.TRANSCRIPT)
        await world.settled()
    assert world.runs == [("claude", world.program)]


async def test_kept_outcome_needs_no_check(world: CheckedWorld) -> None:
    record = checked(Path(world.program))
    world.records.save("claude", replace(record, outcomes=record.outcomes[1:]))
    async with world.running():
        await world.settled()
    assert not world.runs
    assert world.checks.facts(world.session) == ["claude 1.2.3: checked on 2026-11-29, all contracts hold"]
    assert world.checks.trouble() == []


async def test_program_that_was_replaced_is_checked_again(
    world: CheckedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "claude"
    program.write_text("one")
    world.provider.program = str(program)
    monkeypatch.setattr("sm.monitor.program_checks.program_of", lambda process: str(program))
    async with world.running():
        await world.settled()
        program.write_text("another")
        assert world.checks.facts(world.session) == [UNCHECKED]
        await world.checks.prompt_accepted(world.session.id, PROMPT, Source.HOOK)
        await world.settled()
    assert len(world.runs) == 2


async def test_agent_whose_program_is_gone_is_named(
    world: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.provider.program = "/opt/claude (deleted)"
    monkeypatch.setattr("sm.monitor.program_checks.program_of", lambda process: "/opt/claude (deleted)")
    async with world.running():
        await world.settled()
    assert not world.runs
    assert world.checks.facts(world.session) == ["its claude was replaced or removed since its start"]


async def test_check_that_gives_no_outcome_is_not_repeated(world: CheckedWorld) -> None:
    world.has_outcome = False
    async with world.running():
        await world.settled()
        await world.checks.prompt_accepted(world.session.id, PROMPT, Source.HOOK)
        await world.settled()
    assert len(world.runs) == 1
    assert world.checks.facts(world.session) == [UNCHECKED]


async def test_check_that_fails_does_not_end_the_part(
    world: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(provider: str, path: str) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(world.checks, "_run_check", broken)
    async with world.running():
        await world.settled()
        await world.settled()
    assert world.checks.facts(world.session) == [UNCHECKED]


async def test_operator_may_switch_the_checks_off(world: CheckedWorld) -> None:
    world.provider.checks_programs = False
    async with world.running():
        await world.settled()
    assert not world.runs
    assert world.checks.facts(world.session) == [UNCHECKED]


@pytest.mark.parametrize("reason", ["sandboxed", "ended", "other program", "other provider"])
async def test_only_programs_of_live_agents_on_this_host_count(world: CheckedWorld, reason: str) -> None:
    own = world.session.process
    assert own is not None
    match reason:
        case "sandboxed":
            session = world.live("0b0b0b0b", own, TrustLevel.SANDBOXED)
        case "ended":
            session = world.live("0b0b0b0b", replace(own, started="other boot/1"))
        case "other program":
            world.provider.program = "/usr/bin/other"
            session = world.session
        case _:
            session = replace(world.session, provider="command")
    world.sessions.clear()
    world.sessions[session.id] = session
    async with world.running():
        await world.settled()
    assert not world.runs
    assert world.checks.facts(session) == []
