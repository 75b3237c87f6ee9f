"""The observer's reports about hooks, transcripts and dialogs, on real files, a real database and played terminals."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.messages import TERMINAL
from sm.core.models import Process, Signal
from sm.core.observation import Source
from sm.core.states import NoticeKind, SignalKind
from sm.core.statuses import Status
from sm.core.timestamps import iso
from sm.linux import processes
from sm.monitor.agent import USES_MAX
from sm.monitor.listeners import AgentListener
from sm.monitor.observer import Observer
from sm.monitor.recorder import Recorder
from sm.monitor.usage import UsageMeter
from sm.providers.claude.decisions import read_dialog
from sm.providers.readers import AcceptedInput, ToolEnd
from sm.store import Store
from tests import samples
from tests.samples import commit
from tests.sim.lives import Life
from tests.sim.processes import PlayedKernel
from tests.sim.terminals import PlayedServer
from tests.state_parts import StateParts, open_parts, with_completion
from tests.waits import until_async

ID = "1a2b3c4d"
CONVERSATION = "5e55aaaa-0000-4000-8000-000000000001"
NOW_S = 1_790_000_000.0
MESSAGE = "[sm] from operator, message 57\nrun the tests"


@dataclass
class EventLog(AgentListener):
    """A listener that records the events in their order."""

    events: list[tuple[Any, ...]] = field(default_factory=list)
    free: asyncio.Event | None = None
    """`tool_started` waits for this event."""
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def prompt_accepted(self, session_id: str, accepted: AcceptedInput, source: Source) -> None:
        self.events.append(("accepted", session_id, accepted.text, accepted.queued, source))

    async def tool_started(self, session_id: str) -> None:
        self.waits.set()
        if self.free is not None:
            await self.free.wait()
        self.events.append(("begins", session_id))

    async def tool_ended(self, session_id: str, end: ToolEnd) -> None:
        self.events.append(("ended", session_id, end.tool_use, end.allowed))

    async def turn_ending(self, session_id: str) -> None:
        self.events.append(("ends", session_id))

    def process_gone(self, session_id: str) -> None:
        self.events.append(("gone", session_id))

    async def turn_ended(self, session_id: str, at: float) -> None:
        self.events.append(("turn", session_id, at))


@dataclass
class Bench:
    observer: Observer
    log: EventLog
    store: Store
    parts: StateParts
    home: Path
    process: Process
    now_s: float = NOW_S

    async def hook(self, name: str, *, late_s: float = 0.0, **payload: Any) -> None:
        event = {"hook_event_name": name, "session_id": CONVERSATION, **payload}
        await self.observer.hook(ID, event, iso(NOW_S - late_s))

    def publish(self, status: str, **more: Any) -> None:
        """Write the state file as claude does."""
        path = self.home / "sessions" / f"{self.process.pid}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"pid": self.process.pid, "sessionId": CONVERSATION, "status": status}
        path.write_text(json.dumps({**state, "statusUpdatedAt": NOW_S * 1000, **more}))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    def now() -> str:
        return iso(NOW_S)

    process, loop = processes.identify(os.getpid()), asyncio.get_running_loop()
    assert process is not None
    kernel = PlayedKernel(loop)
    terminals = PlayedServer(loop, kernel, lambda: NOW_S).client("test", Life("daemon"))
    async with open_parts(tmp_path, now) as (store, parts):
        session = replace(samples.session(ID, status=Status.RUNNING), provider="claude", process=process)
        launch = replace(samples.LAUNCH, environment={"CLAUDE_CONFIG_DIR": str(tmp_path)})
        await commit(store, lambda tx: tx.insert(session, launch, None))
        log = EventLog()
        usage, rules = UsageMeter(store, Config(), now), [with_completion(store, parts)]
        observer = Observer(
            store,
            Recorder(store, parts.notices, parts.faults, parts.providers, usage, rules),
            parts.providers,
            terminals,
            usage,
            transcripts_every_s=lambda: 60.0,
            clock=lambda: made.now_s,
        )
        observer.register(log)
        made = Bench(observer, log, store, parts, tmp_path, process)
        yield made
        observer.close()
    kernel.close()


async def test_hook_events_reach_the_listener(bench: Bench) -> None:
    await bench.hook("UserPromptSubmit", prompt=MESSAGE)
    await bench.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_1")
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_1")
    await bench.hook("Stop")
    assert bench.log.events == [
        ("accepted", ID, MESSAGE, False, Source.HOOK),
        ("begins", ID),
        ("ended", ID, "toolu_1", True),
        ("turn", ID, NOW_S),
        ("ends", ID),
    ]


async def test_late_prompt_hook_still_reports_an_accepted_prompt(bench: Bench) -> None:
    await bench.hook("Stop")
    await bench.hook("UserPromptSubmit", late_s=60.0, prompt=MESSAGE)
    assert ("accepted", ID, MESSAGE, False, Source.HOOK) in bench.log.events


async def test_late_tool_hook_does_not_report_a_tool_start(bench: Bench) -> None:
    await bench.hook("PreToolUse", late_s=60.0, tool_name="Bash", tool_use_id="toolu_1")
    assert bench.log.events == []


async def test_tool_hook_waits_for_the_listener_and_blocks_no_other_hook(bench: Bench) -> None:
    bench.log.free = asyncio.Event()
    tool_hook = asyncio.ensure_future(bench.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_1"))
    await bench.log.waits.wait()
    await bench.hook("UserPromptSubmit", prompt=MESSAGE)
    assert not tool_hook.done()
    bench.log.free.set()
    await tool_hook
    assert [event for event, *_ in bench.log.events] == ["accepted", "begins"]


async def start_tool(bench: Bench, id: str, command: str, **agent: Any) -> None:
    await bench.hook(
        "PreToolUse", tool_name="Bash", tool_use_id=id, tool_input={"command": command, "timeout": 1}, **agent
    )


def tool_use_of_dialog(bench: Bench, command: str, agent: str = "", session_id: str = ID) -> str | None:
    """The id of the tool call that a permission dialog about this command belongs to."""
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


async def test_tool_use_finds_the_pending_call_with_the_same_agent_and_arguments(bench: Bench) -> None:
    await start_tool(bench, "toolu_1", "ls")
    await start_tool(bench, "toolu_2", "pwd")
    await start_tool(bench, "toolu_3", "ls", agent_id="a1")
    calls = [("ls", ""), ("pwd", ""), ("ls", "a1"), ("pwd", "a1"), ("id", "")]
    assert [tool_use_of_dialog(bench, *call) for call in calls] == [
        "toolu_1",
        "toolu_2",
        "toolu_3",
        None,
        None,
    ]
    assert tool_use_of_dialog(bench, "ls", session_id="5e6f7a8b") is None
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_2")
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_0")
    assert [tool_use_of_dialog(bench, *call) for call in calls[:3]] == ["toolu_1", None, "toolu_3"]


async def test_tool_use_is_unknown_when_two_pending_calls_are_equal(bench: Bench) -> None:
    await start_tool(bench, "toolu_1", "ls")
    await start_tool(bench, "toolu_2", "ls")
    assert tool_use_of_dialog(bench, "ls") is None
    await bench.hook("PostToolUseFailure", tool_name="Bash", tool_use_id="toolu_1")
    assert tool_use_of_dialog(bench, "ls") == "toolu_2"


@pytest.mark.parametrize("end", ["Stop", "StopFailure"])
async def test_turn_end_forgets_pending_tool_calls_except_those_of_sub_agents(bench: Bench, end: str) -> None:
    await start_tool(bench, "toolu_1", "ls")
    await start_tool(bench, "toolu_2", "ls", agent_id="a1")
    await bench.hook(end, late_s=1)
    assert tool_use_of_dialog(bench, "ls") == "toolu_1", "the end of the previous turn"
    await bench.hook(end)
    assert (tool_use_of_dialog(bench, "ls"), tool_use_of_dialog(bench, "ls", "a1")) == (None, "toolu_2")


async def test_late_dialog_hook_does_not_restore_the_earlier_conversation(bench: Bench) -> None:
    other = "5e55aaaa-0000-4000-8000-000000000002"
    dialog = {"tool_name": "Bash", "tool_input": {"command": "ls", "timeout": 1}, "session_id": CONVERSATION}
    await start_tool(bench, "toolu_1", "ls")
    await bench.hook("SessionStart", source="clear", session_id=other)
    await bench.hook("PermissionRequest", late_s=1, **dialog)
    session = bench.store.sessions[ID]
    assert (session.conversation, session.status) == (other, Status.IDLE)


async def test_forget_reports_process_gone_to_the_listener(bench: Bench) -> None:
    await start_tool(bench, "toolu_1", "ls")
    bench.observer.forget(ID)
    assert bench.log.events[-1] == ("gone", ID)


async def test_oldest_tool_call_is_forgotten_when_too_many_never_end(bench: Bench) -> None:
    for number in range(USES_MAX + 1):
        await start_tool(bench, f"toolu_{number}", f"ls {number}")
    assert tool_use_of_dialog(bench, "ls 0") is None
    assert tool_use_of_dialog(bench, "ls 1") == "toolu_1"


async def test_transcript_events_reach_the_listener(bench: Bench) -> None:
    transcript = bench.home / "projects" / "w" / f"{CONVERSATION}.jsonl"
    transcript.parent.mkdir(parents=True)
    refused = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": "no"}
    lines: list[dict[str, Any]] = [
        {"type": "queue-operation", "operation": "enqueue", "content": MESSAGE},
        {"type": "user", "message": {"content": [refused]}, "toolUseResult": "User rejected tool use"},
        {"type": "system", "subtype": "turn_duration"},
    ]
    at = iso(NOW_S - 1)
    transcript.write_text("".join(json.dumps({**line, "timestamp": at}) + "\n" for line in lines))
    await bench.hook("UserPromptSubmit", prompt="go", transcript_path=str(transcript))
    bench.log.events.clear()
    await bench.observer.read_to_end(ID)
    assert bench.log.events == [
        ("accepted", ID, MESSAGE, True, Source.TRANSCRIPT),
        ("ended", ID, "toolu_1", False),
        ("turn", ID, NOW_S - 1),
    ]


LIMIT = "You've hit your session limit \u00b7 resets 5:59am (UTC)"


def transcript_of(bench: Bench, *lines: dict[str, Any], late_s: float = 0.0) -> str:
    path = bench.home / "projects" / "w" / f"{CONVERSATION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps({**line, "timestamp": iso(NOW_S - late_s)}) + "\n" for line in lines)
    return str(path)


def prompt_line(turn: str) -> dict[str, Any]:
    return {"type": "user", "promptSource": "typed", "promptId": turn, "message": {"content": "go"}}


def error_line(error: str, text: str) -> dict[str, Any]:
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "isApiErrorMessage": True, "error": error, "message": message}


END_LINE = {"type": "system", "subtype": "turn_duration"}


def fault_notices(bench: Bench) -> list[str]:
    notices = bench.store.mail.open.notices.values()
    return [notice.text for notice in notices if notice.kind is NoticeKind.FAULT]


async def test_failed_turn_is_told_once_when_the_hook_and_the_transcript_report_it(bench: Bench) -> None:
    path = transcript_of(bench, prompt_line("p1"), error_line("rate_limit", LIMIT), END_LINE, late_s=0.5)
    await bench.hook("UserPromptSubmit", prompt="go", transcript_path=path, prompt_id="p1", late_s=2)
    await bench.hook(
        "StopFailure", error="rate_limit", last_assistant_message=LIMIT, prompt_id="p1", late_s=0.4
    )
    await bench.observer.read_to_end(ID)
    (text,) = fault_notices(bench)
    assert "does not go on: session limit, resets" in text
    effects = [e.kind for e in bench.store.mail.open.effects.values()]
    assert effects.count(EffectKind.CLOSE_DIALOG) == 1
    (event,) = [e for e in await bench.store.events(sessions=[ID], limit=10) if "fault" in e.metadata]
    assert (event.metadata["fault"], event.metadata["text"]) == ("quota", LIMIT)


async def test_each_failed_turn_is_told_also_when_the_texts_are_equal(bench: Bench) -> None:
    for number, late_s in (("p1", 3.0), ("p2", 1.0)):
        await bench.hook("UserPromptSubmit", prompt="go", prompt_id=number, late_s=late_s + 0.5)
        await bench.hook(
            "StopFailure",
            error="invalid_request",
            last_assistant_message="x",
            prompt_id=number,
            late_s=late_s,
        )
    assert len(fault_notices(bench)) == 2


async def test_reason_of_an_idle_session_changes_when_its_conversation_is_cleared(bench: Bench) -> None:
    other = "5e55aaaa-0000-4000-8000-000000000002"
    await bench.hook("UserPromptSubmit", prompt="go", prompt_id="p1", late_s=3)
    full = {"error": "invalid_request", "last_assistant_message": "Prompt is too long"}
    await bench.hook("StopFailure", **full, prompt_id="p1", late_s=2)
    failed = bench.store.sessions[ID]
    assert (failed.status, "context is full" in failed.status_reason) == (Status.IDLE, True)
    # claude 2.1.332 reports nothing else for /clear.
    await bench.hook("SessionStart", source="clear", session_id=other, late_s=1)
    cleared = bench.store.sessions[ID]
    assert (cleared.status, cleared.status_reason) == (
        Status.IDLE,
        "the conversation was cleared (SessionStart)",
    )
    assert cleared.status_at == iso(NOW_S - 1)
    newer = {"status_reason": "waiting for r1", "status_at": iso(NOW_S)}
    await commit(bench.store, lambda tx: tx.update(tx.session(ID), **newer))
    await bench.hook("SessionStart", source="clear", session_id=other, late_s=1)
    assert bench.store.sessions[ID].status_reason == "waiting for r1"


async def test_failure_that_only_the_transcript_reports_is_told(bench: Bench) -> None:
    path = transcript_of(
        bench, prompt_line("p1"), error_line("invalid_request", "Prompt is too long"), END_LINE
    )
    await bench.hook("UserPromptSubmit", prompt="go", transcript_path=path, prompt_id="p1", late_s=1)
    await bench.observer.read_to_end(ID)
    (text,) = fault_notices(bench)
    assert text.endswith("hint: sm send 1a2b3c4d /compact")


async def test_failure_before_a_later_turn_in_the_same_lines_is_not_told(bench: Bench) -> None:
    lines = (prompt_line("p1"), error_line("server_error", "x"), END_LINE, prompt_line("p2"))
    path = transcript_of(bench, *lines, late_s=1)
    await bench.hook("UserPromptSubmit", prompt="go", transcript_path=path, prompt_id="p2", late_s=0.5)
    await bench.observer.read_to_end(ID)
    assert fault_notices(bench) == []


async def complete_and_reopen(bench: Bench) -> None:
    """End a turn, complete the session, and reopen it as the delivery of a message does."""
    await bench.hook("UserPromptSubmit", prompt="go", late_s=4)
    await bench.hook("Stop", late_s=3)
    completed = Signal(SignalKind.REPORTED_COMPLETED, "report", "sm complete", iso(NOW_S - 2))
    reopened = Signal(SignalKind.REOPENED, TERMINAL, "the agent got a message", iso(NOW_S - 1))
    for signal in (completed, reopened):
        await bench.parts.observe(ID, signal)


def status_of(bench: Bench) -> str:
    return str(bench.store.sessions[ID].status)


async def test_reopened_session_is_not_idle_because_of_the_turn_before(bench: Bench) -> None:
    await complete_and_reopen(bench)
    bench.publish("idle", statusUpdatedAt=(NOW_S - 3) * 1000)
    bench.observer.watch(ID, bench.process, None)
    await until_read(bench, Source.STATE_FILE)
    assert status_of(bench) == "running"
    await bench.hook("UserPromptSubmit", prompt=MESSAGE, late_s=0.5)
    assert status_of(bench) == "running"
    await bench.hook("Stop")
    assert status_of(bench) == "idle"


async def test_reopened_session_is_idle_again_when_no_turn_begins(bench: Bench) -> None:
    await complete_and_reopen(bench)
    bench.publish("idle", statusUpdatedAt=(NOW_S - 3) * 1000)
    bench.now_s += 60
    bench.observer.watch(ID, bench.process, None)
    await until_read(bench, Source.STATE_FILE)
    assert status_of(bench) == "idle"


async def until_read(bench: Bench, source: Source) -> None:
    """Wait until the observer has read the source and has decided."""

    async def is_read() -> bool:
        ledger = bench.observer.ledger(ID)
        return ledger is not None and source in ledger.entries

    await until_async(is_read, f"the observer has read the {source}")
    await bench.hook("ConfigChange")  # waits for the lock of the decision, and observes nothing


async def test_blocked_reason_reads_the_current_state_file(bench: Bench) -> None:
    assert await bench.observer.blocked_reason(ID) is None, "the session is not watched yet"
    bench.publish("busy")
    bench.observer.watch(ID, bench.process, None)
    await bench.hook("PreToolUse", tool_name="Bash", tool_use_id="toolu_1")
    assert await bench.observer.blocked_reason(ID) is None
    bench.publish("waiting", waitingFor="permission prompt")
    assert await bench.observer.blocked_reason(ID) == "claude waits: permission prompt"
    await bench.hook("PermissionRequest", tool_name="Bash", tool_input={"command": "rm x"})
    bench.publish("busy")
    assert await bench.observer.blocked_reason(ID) is None, "the state file reports a closed dialog"


async def test_blocked_reason_uses_the_hook_when_there_is_no_state_file(bench: Bench) -> None:
    await bench.hook("PermissionRequest", tool_name="Bash", tool_input={"command": "rm x"})
    why = await bench.observer.blocked_reason(ID)
    assert why is not None
    assert why.startswith("claude asks for permission: Bash: rm x")
    await bench.hook("PostToolUse", tool_name="Bash", tool_use_id="toolu_1")
    assert await bench.observer.blocked_reason(ID) is None
