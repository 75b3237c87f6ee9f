"""Programs of agents are checked once, in the background, and what is broken is told."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.config import Config
from sm.core.models import Launch, Process, Session
from sm.core.observation import Source
from sm.core.program_states import ProgramState
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.linux.processes import identify, program_of
from sm.monitor.program_checks import ProgramChecks
from sm.providers.base import InstalledProgram
from sm.providers.checks import CheckRecords, is_script
from sm.providers.readers import AcceptedInput
from sm.store.history import Page
from tests import samples
from tests.providers.test_checks import checked

UNCHECKED = "claude: not checked"
PROMPT = AcceptedInput("go on", 0.0)


class InstalledFiles:
    """The part of `Setup` that finds the program of new agents: a link in the directory on their PATH."""

    def installed(self, environment: Mapping[str, str]) -> InstalledProgram | None:
        link = Path(environment["PATH"], "claude")
        if not link.exists():
            return None
        path = link.resolve()
        return InstalledProgram(str(link), str(path), path.name, is_script(str(path)))


class OwnProvider:
    """A provider whose agent CLI is the Python of this test."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.checks_programs = True
        self.notes: list[str] = []
        self.setup: InstalledFiles | None = None

    def is_own_program(self, path: str) -> bool:
        return path == self.program

    def program_notes(self, version: str | None, outcomes: Mapping[str, bool]) -> Sequence[str]:
        return self.notes


class CheckedWorld:
    """Live sessions whose program is the Python of this test, and a check that keeps outcomes."""

    def __init__(self, directory: Path) -> None:
        own = identify(os.getpid())
        assert own is not None
        self.program = program_of(own) or ""
        self.session = self.live("0a0a0a0a", own)
        directory.mkdir()
        self.records = CheckRecords(str(directory))
        self.sessions = {self.session.id: self.session}
        self.past: list[Session] = []
        """Sessions that are not in memory, the one that ended last first."""
        self.paths: dict[str, str] = {}
        """The PATH of agents, by their sessions, if it is not `bin`."""
        self.provider = OwnProvider(self.program)
        self.has_outcome = True
        self.bin = directory.parent / "bin"
        self.checked: asyncio.Queue[str] = asyncio.Queue()
        self.reported = asyncio.Event()
        self.runs: list[tuple[str, str]] = []
        self.told_meanwhile: list[str] = []
        """The problems during the last check."""
        self.checks = ProgramChecks(
            Config(),
            cast(Any, self.store()),
            self.records,
            {"claude": cast(Any, self.provider)},
            self.run_check,
        )

    @staticmethod
    def live(session_id: str, process: Process, mode: TrustLevel = TrustLevel.DIRECT) -> Session:
        return replace(samples.session(session_id), provider="claude", process=process, effective_mode=mode)

    async def run_check(self, provider: str, path: str) -> None:
        self.runs.append((provider, path))
        self.told_meanwhile = self.checks.problems()
        if self.has_outcome:
            self.records.save(provider, checked(Path(path), Path(path).name))
        self.checked.put_nowait(path)

    def store(self) -> SimpleNamespace:
        async def page(*_: object) -> Page:
            return Page(self.past)

        facts = {"sessions": self.sessions, "launch": self.launch, "was_told": self.was_told}
        return SimpleNamespace(**facts, history=SimpleNamespace(page=page))

    async def was_told(self, occasion: str) -> bool:
        self.reported.set()
        return True  # tests/played/test_programs.py has a store

    async def launch(self, session_id: str) -> Launch:
        path = self.paths.get(session_id, str(self.bin))
        return replace(samples.LAUNCH, environment={"PATH": path})

    def install(self, version: str, content: str = "an ELF file") -> str:
        """Install a version as the installer of claude does: a file for each version, and a link. Returns its path."""
        self.provider.setup = InstalledFiles()
        program = self.bin.parent / "claude" / "versions" / version
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"{content} {version}")
        self.bin.mkdir(exist_ok=True)
        link = self.bin / "new"
        link.symlink_to(program)
        link.rename(self.bin / "claude")
        return str(program)

    def plan(self, version: str | None = None) -> None:
        self.checks.agent_planned("claude", {"PATH": str(self.bin)}, version)

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
    name = Path(world.program).name
    told = f"claude {name}: checked on 2026-11-29, 1 of 2 contracts does not hold: plan"
    assert world.checks.facts(world.session) == [told]


async def test_new_agent_is_looked_at_when_it_accepts_its_prompt(world: CheckedWorld) -> None:
    world.sessions.clear()
    async with world.running():
        await world.settled()
        assert not world.runs
        world.sessions[world.session.id] = world.session
        await world.checks.prompt_accepted(world.session.id, PROMPT, Source.TRANSCRIPT)
        await world.settled()
    assert world.runs == [("claude", world.program)]


async def test_program_of_the_newest_session_is_looked_at_also_if_that_ended_long_ago(
    world: CheckedWorld,
) -> None:
    program = world.install("1.2.3")
    world.past = [replace(world.session, id="0b0b0b0b", created_at=later(world.session.created_at, 60))]
    world.paths[world.session.id] = "/nowhere"
    async with world.running():
        await world.settled()
    assert world.runs == [("claude", world.program), ("claude", program)]


async def test_program_whose_check_runs_needs_no_command_of_the_operator(world: CheckedWorld) -> None:
    world.has_outcome = False
    world.session = world.sessions[world.session.id] = replace(world.session, program_version="1.2.3")
    world.install("1.2.3")
    async with world.running():
        world.plan("1.2.3")
        await world.settled()
    assert world.told_meanwhile == ["claude 1.2.3: not checked (sm tries its contracts now)"]
    assert world.checks.problems() == ["claude 1.2.3: not checked (sm check claude)"]


async def test_kept_outcome_needs_no_check(world: CheckedWorld) -> None:
    record = checked(Path(world.program))
    world.records.save("claude", replace(record, outcomes=record.outcomes[1:]))
    async with world.running():
        await world.settled()
    assert not world.runs
    world.provider.notes = ["1.2.3 is new"]
    assert world.checks.facts(world.session) == ["claude 1.2.3: checked on 2026-11-29", "1.2.3 is new"]
    assert world.checks.problems() == []


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


async def test_program_of_the_last_agent_is_checked_at_the_start_of_the_daemon(world: CheckedWorld) -> None:
    program = world.install("2.1.332")
    world.provider.program = "another"
    world.sessions[world.session.id] = replace(world.session, process=None, status=Status.COMPLETED)
    async with world.running():
        await world.checked.get()
        await world.settled()
    assert world.runs == [("claude", program)]
    assert world.checks.lines() == [
        "claude 2.1.332: checked on 2026-11-29, 1 of 2 contracts does not hold: plan"
    ]
    assert world.checks.problems() == [f"{world.checks.lines()[0]} (sm check claude)"]


async def test_instance_without_an_agent_of_a_provider_checks_no_program(world: CheckedWorld) -> None:
    world.install("2.1.332")
    world.sessions.clear()
    async with world.running():
        await world.settled()
    assert not world.runs
    assert world.checks.lines() == []


async def test_program_is_checked_when_an_agent_is_planned(world: CheckedWorld) -> None:
    world.sessions.clear()
    program = world.install("2.1.332")
    async with world.running():
        world.plan()
        assert world.checks.lines() == []  # nothing waits for the look
        await world.settled()
        world.plan()
        await world.settled()
    assert world.runs == [("claude", program)]


async def test_update_is_checked_although_no_agent_starts(
    world: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.monitor.program_checks._QUIET_S", 0.0)
    world.sessions.clear()
    first = world.install("2.1.331")
    async with world.running():
        world.plan()
        assert await world.checked.get() == first
        await world.settled()
        second = world.install("2.1.332")
        assert await world.checked.get() == second
        await world.settled()
    assert [line.partition(":")[0] for line in world.checks.lines()] == ["claude 2.1.332"]


async def test_script_has_the_outcomes_of_the_version_that_it_starts(world: CheckedWorld) -> None:
    world.sessions.clear()
    world.install("wrapper", "#!/bin/sh\nexec claude")
    async with world.running():
        world.plan("2.1.332")
        await world.settled()
        assert not world.runs
        assert world.checks.state_of("claude", "2.1.332") == ProgramState("claude", "2.1.332")
        world.records.save("claude", checked(Path(world.program), "2.1.332"))
        world.plan("2.1.332")
        await world.settled()
    state = world.checks.state_of("claude", "2.1.332")
    assert state is not None
    assert state.broken == ("plan",)
    assert not world.runs


async def test_switched_off_checks_are_no_problem_but_are_told(world: CheckedWorld) -> None:
    world.provider.checks_programs = False
    world.sessions.clear()
    world.install("2.1.332")
    async with world.running():
        world.plan()
        await world.settled()
    assert not world.runs
    assert (world.checks.lines(), world.checks.problems()) == (["claude 2.1.332: not checked"], [])


async def test_agents_keep_their_version_when_claude_is_updated(
    world: CheckedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = world.install("2.1.331")
    monkeypatch.setattr("sm.monitor.program_checks.program_of", lambda process: old)
    world.provider.program = old
    world.sessions.clear()
    for number in range(10):
        agent = replace(world.session, id=f"0a0a0a{number:02}", program_version="2.1.331", status=Status.IDLE)
        world.sessions[agent.id] = agent
    async with world.running():
        await world.settled()
        assert not [line for line in world.checks.lines() if "agents" in line]
        world.install("2.1.332")
        world.plan("2.1.332")
        await world.settled()
    replaced = "10 agents run claude 2.1.331; new agents start 2.1.332"
    assert world.checks.lines()[-1] == world.checks.problems()[-1] == replaced
    facts = world.checks.facts(agent)
    assert facts[0].startswith("claude 2.1.331: checked on ")
    assert facts[1:] == ["its claude 2.1.331 was replaced since its start; new agents start 2.1.332"]
    Path(old).unlink()
    monkeypatch.setattr("sm.monitor.program_checks.program_of", lambda process: f"{old} (deleted)")
    world.provider.program = f"{old} (deleted)"
    removed = "its claude 2.1.331 was replaced or removed since its start; new agents start 2.1.332"
    assert world.checks.facts(agent) == [removed]


async def test_outcome_of_a_check_by_a_person_is_known_at_once(world: CheckedWorld) -> None:
    world.has_outcome = False
    async with world.running():
        await world.settled()
        assert world.checks.facts(world.session) == [UNCHECKED]
        world.records.save("claude", checked(Path(world.program)))
        await world.reported.wait()
        await world.settled()
    (fact,) = world.checks.facts(world.session)
    assert fact.startswith("claude 1.2.3: checked on ")
    assert len(world.runs) == 1


async def test_check_is_due_once_the_operator_has_switched_checks_on(world: CheckedWorld) -> None:
    world.sessions.clear()
    program = world.install("2.1.332")
    world.provider.checks_programs = False
    async with world.running():
        world.plan()
        await world.settled()
        assert not world.runs
        world.provider.checks_programs = True
        world.plan()
        await world.settled()
    assert world.runs == [("claude", program)]
