"""What an observer passes on of an agent's hooks and lines, and what it knows of its dialogs: files and a store."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import Config
from sm.core.models import Process
from sm.core.observation import Source
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.linux import processes
from sm.monitor.agent import USES_MAX
from sm.monitor.listeners import AgentListener
from sm.monitor.observer import Observer
from sm.monitor.usage import UsageMeter
from sm.providers.claude.decisions import read_dialog
from sm.providers.readers import AcceptedInput
from sm.store import Store
from tests import samples
from tests.managed import managed
from tests.samples import commit
from tests.terminals.world import World

ID = "1a2b3c4d"
CONVERSATION = "5e55aaaa-0000-4000-8000-000000000001"
NOW_S = 1_790_000_000.0
OURS = "[sm] from operator, message 57\nrun the tests"


@dataclass
class EventLog(AgentListener):
    """A listener that records the events in their order."""

    said: list[tuple[Any, ...]] = field(default_factory=list)
    free: asyncio.Event | None = None
    """What a tool's beginning waits for."""
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        self.said.append(("accepted", session_id, accepted.text, accepted.queued, source))

    async def tool_started(self, session_id: str) -> None:
        self.waits.set()
        if self.free is not None:
            await self.free.wait()
        self.said.append(("begins", session_id))

    async def tool_ended(self, session_id: str, tool_use: str, allowed: bool) -> None:
        self.said.append(("ended", session_id, tool_use, allowed))

    async def turn_ending(self, session_id: str) -> None:
        self.said.append(("ends", session_id))

    def process_gone(self, session_id: str) -> None:
        self.said.append(("gone", session_id))

    async def turn_ended(self, session_id: str, at: float) -> None:
        self.said.append(("turn", session_id, at))


@dataclass
class Bench:
    observer: Observer
    told: EventLog
    store: Store
    home: Path
    process: Process

    async def hook(self, name: str, *, late_s: float = 0.0, **payload: Any) -> None:
        said = {"hook_event_name": name, "session_id": CONVERSATION, **payload}
        await self.observer.hook(ID, said, iso(NOW_S - late_s))

    def publish(self, status: str, **more: Any) -> None:
        """As claude says of itself what it does."""
        path = self.home / "sessions" / f"{self.process.pid}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"pid": self.process.pid, "sessionId": CONVERSATION, "status": status}
        path.write_text(json.dumps({**state, "statusUpdatedAt": NOW_S * 1000, **more}))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    def now() -> str:
        return iso(NOW_S)

    world, process = World(), processes.identify(os.getpid())
    assert process is not None
    async with managed(tmp_path, now) as (store, manager):
        made = replace(samples.session(ID, status=Status.RUNNING), provider="claude", process=process)
        launch = replace(samples.LAUNCH, environment={"CLAUDE_CONFIG_DIR": str(tmp_path)})
        await commit(store, lambda tx: tx.insert(made, launch, None))
        told = EventLog()
        observer = Observer(
            store,
            manager,
            world.terminals(),
            UsageMeter(store, Config(), now),
            transcripts_every_s=60.0,
            clock=lambda: NOW_S,
        )
        observer.register(told)
        yield Bench(observer, told, store, tmp_path, process)
        observer.close()
    await world.end()


async def test_what_hooks_say_is_passed_on(bench: Bench) -> None:
    await bench.hook("UserPromptSubmit", prompt=OURS)
    await bench.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_1")
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_1")
    await bench.hook("Stop")
    assert bench.told.said == [
        ("accepted", ID, OURS, False, Source.HOOK),
        ("begins", ID),
        ("ended", ID, "toolu_1", True),
        ("turn", ID, NOW_S),
        ("ends", ID),
    ]


async def test_a_hook_that_comes_late_is_evidence_all_the_same(bench: Bench) -> None:
    await bench.hook("Stop")
    await bench.hook("UserPromptSubmit", late_s=60.0, prompt=OURS)
    assert ("accepted", ID, OURS, False, Source.HOOK) in bench.told.said


async def test_for_a_tool_that_has_begun_long_since_nobody_is_held_up(bench: Bench) -> None:
    await bench.hook("PreToolUse", late_s=60.0, tool_name="Bash", tool_use_id="toolu_1")
    assert bench.told.said == []


async def test_a_tool_waits_for_what_is_typed_and_holds_up_no_other_hook(bench: Bench) -> None:
    bench.told.free = asyncio.Event()
    begins = asyncio.ensure_future(bench.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_1"))
    await bench.told.waits.wait()
    await bench.hook("UserPromptSubmit", prompt=OURS)
    assert not begins.done()
    bench.told.free.set()
    await begins
    assert [what for what, *_ in bench.told.said] == ["accepted", "begins"]


async def begun(bench: Bench, id: str, command: str, **agent: Any) -> None:
    await bench.hook(
        "PreToolUse", tool_name="Bash", tool_use_id=id, tool_input={"command": command, "timeout": 1}, **agent
    )


def asked_about(bench: Bench, command: str, agent: str = "", session_id: str = ID) -> str | None:
    """The use of a tool that a dialog about this command is about."""
    dialog = read_dialog(
        {
            "hook_event_name": "PermissionRequest",
            "tool_name": "Bash",
            "tool_input": {"timeout": 1, "command": command},
            "agent_id": agent,
        },
        cut=False,
    )
    assert dialog is not None
    return bench.observer.tool_use(session_id, dialog.agent, dialog.tool_digest)


async def test_a_dialog_is_about_the_use_of_a_tool_with_its_arguments(bench: Bench) -> None:
    await begun(bench, "toolu_1", "ls")
    await begun(bench, "toolu_2", "pwd")
    await begun(bench, "toolu_3", "ls", agent_id="a1")
    asked = [("ls", ""), ("pwd", ""), ("ls", "a1"), ("pwd", "a1"), ("id", "")]
    assert [asked_about(bench, *each) for each in asked] == ["toolu_1", "toolu_2", "toolu_3", None, None]
    assert asked_about(bench, "ls", session_id="5e6f7a8b") is None
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_2")
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_0")
    assert [asked_about(bench, *each) for each in asked[:3]] == ["toolu_1", None, "toolu_3"]


async def test_of_two_uses_that_are_the_same_a_dialog_may_be_about_either(bench: Bench) -> None:
    await begun(bench, "toolu_1", "ls")
    await begun(bench, "toolu_2", "ls")
    assert asked_about(bench, "ls") is None
    await bench.hook("PostToolUseFailure", tool_name="Bash", tool_use_id="toolu_1")
    assert asked_about(bench, "ls") == "toolu_2"


@pytest.mark.parametrize("end", ["Stop", "StopFailure"])
async def test_what_a_turn_has_begun_is_over_with_it_but_for_sub_agents(bench: Bench, end: str) -> None:
    await begun(bench, "toolu_1", "ls")
    await begun(bench, "toolu_2", "ls", agent_id="a1")
    await bench.hook(end, late_s=1)
    assert asked_about(bench, "ls") == "toolu_1", "it was the end of the turn before"
    await bench.hook(end)
    assert (asked_about(bench, "ls"), asked_about(bench, "ls", "a1")) == (None, "toolu_2")


async def test_a_dialog_that_comes_after_the_conversation_has_changed_changes_nothing_back(
    bench: Bench,
) -> None:
    other = "5e55aaaa-0000-4000-8000-000000000002"
    asked = {"tool_name": "Bash", "tool_input": {"command": "ls", "timeout": 1}, "session_id": CONVERSATION}
    await begun(bench, "toolu_1", "ls")
    await bench.hook("SessionStart", source="clear", session_id=other)
    await bench.hook("PermissionRequest", late_s=1, **asked)
    session = bench.store.sessions[ID]
    assert (session.conversation, session.status) == (other, Status.IDLE)


async def test_who_is_told_of_hooks_is_told_that_there_will_be_no_more(bench: Bench) -> None:
    await begun(bench, "toolu_1", "ls")
    bench.observer.forget(ID)
    assert bench.told.said[-1] == ("gone", ID)


async def test_uses_whose_end_is_never_heard_are_forgotten_in_the_end(bench: Bench) -> None:
    for number in range(USES_MAX + 1):
        await begun(bench, f"toolu_{number}", f"ls {number}")
    assert asked_about(bench, "ls 0") is None
    assert asked_about(bench, "ls 1") == "toolu_1"


async def test_what_the_transcript_says_is_passed_on(bench: Bench) -> None:
    transcript = bench.home / "projects" / "w" / f"{CONVERSATION}.jsonl"
    transcript.parent.mkdir(parents=True)
    refused = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": "no"}
    lines: list[dict[str, Any]] = [
        {"type": "queue-operation", "operation": "enqueue", "content": OURS},
        {"type": "user", "message": {"content": [refused]}, "toolUseResult": "User rejected tool use"},
        {"type": "system", "subtype": "turn_duration"},
    ]
    at = iso(NOW_S - 1)
    transcript.write_text("".join(json.dumps({**line, "timestamp": at}) + "\n" for line in lines))
    await bench.hook("UserPromptSubmit", prompt="go", transcript_path=str(transcript))
    bench.told.said.clear()
    await bench.observer.ended(ID)
    assert bench.told.said == [
        ("accepted", ID, OURS, True, Source.TRANSCRIPT),
        ("ended", ID, "toolu_1", False),
        ("turn", ID, NOW_S - 1),
    ]


async def test_a_dialog_is_seen_by_what_the_agent_publishes_at_this_moment(bench: Bench) -> None:
    assert await bench.observer.blocked(ID) is None, "nobody knows it yet"
    bench.publish("busy")
    bench.observer.watch(ID, bench.process, None)
    await bench.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_1")
    assert await bench.observer.blocked(ID) is None
    bench.publish("waiting", waitingFor="permission prompt")
    assert await bench.observer.blocked(ID) == "it waits: permission prompt"
    await bench.hook("PermissionRequest", tool_name="Bash", tool_input={"command": "rm x"})
    bench.publish("busy")
    assert await bench.observer.blocked(ID) is None, "it says that it is closed"


async def test_where_nothing_is_published_a_dialog_is_seen_by_the_hook(bench: Bench) -> None:
    await bench.hook("PermissionRequest", tool_name="Bash", tool_input={"command": "rm x"})
    why = await bench.observer.blocked(ID)
    assert why is not None
    assert why.startswith("it asks for permission: Bash: rm x")
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_1")
    assert await bench.observer.blocked(ID) is None
