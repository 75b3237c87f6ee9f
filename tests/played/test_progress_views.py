"""Views of agents with odd transcripts, and what siblings may see."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import new_key
from tests.fixtures import context_fixture
from tests.sim import stage as sim
from tests.sim.programs import Running
from tests.sim.stage import until

MORE = "child_agents: {progress: {snapshot_interval: 1}}\n"
ID = "5e55aaaa-0000-4000-8000-000000000001"
STARTED = {"hook_event_name": "SessionStart", "source": "startup", "session_id": ID}
TOOL = {"file_path": "/w/secret-plan"}
FAR = "2999-01-01T00:00:00.000Z"


def message(at: str) -> str:
    return json.dumps(
        {
            "type": "assistant",
            "timestamp": at,
            "message": {
                "id": f"msg_{at}",
                "model": "claude-opus-4-8",
                "content": [{"type": "tool_use", "id": f"toolu_{at}", "name": "Write", "input": TOOL}],
                "usage": {"input_tokens": 10, "output_tokens": 5},
            },
        }
    )


async def screen(program: Running) -> None:
    program.print("secret-screen")
    await sim.stand_in(program)


class Stage(sim.Stage):
    """An instance whose claude sends only the hook events of the test."""

    def __init__(self) -> None:
        super().__init__(MORE, screen)
        self.projects = self.home / ".claude" / "projects"

    def soon(self, seconds: int = 30) -> str:
        """A time after the start of every session of the test."""
        at = self.now() + timedelta(seconds=seconds)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def transcript(self) -> Path:
        return self.projects / "w" / f"{ID}.jsonl"

    def write(self, *lines: str, transcript: Path | None = None) -> None:
        path = transcript or self.transcript
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def spawn_with_events(self, *events: Mapping[str, Any], transcript: Path | None = None) -> str:
        """Spawn a claude that sends `events` and names this transcript; return the session id."""
        session_id: str = self.spawn("Plain", "x")["session_id"]
        hook = self.hook_of(session_id)
        named = {"transcript_path": str(transcript or self.transcript), "session_id": ID}
        for event in (STARTED, *events):
            body: dict[str, Any] = {
                "provider": "claude",
                "emitted_at": self.soon(0),
                "payload": {**event, **named},
            }
            if event["hook_event_name"] == "PermissionRequest":
                hook.send("/v1/hooks/dialog", new_key(), body | {"wait_s": 25})
            else:
                hook.send("/v1/hooks", new_key(), body)
                assert hook.receive() == ["ok", {}]
        return session_id

    def view(self, session_id: str, what: str) -> Any:
        return self.get(f"/v1/sessions/{session_id}/{what}")

    def wait_counted(self, session_id: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            progress: dict[str, Any] = self.view(session_id, "progress")
            return progress if progress["tokens"] is not None and progress["tokens_used"] else None

        return until(look, "its tokens are counted", 10)


stage = context_fixture("function", Stage)


def tool_event(tool: str = "Bash", **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": {"command": "do-the-secret"},
    } | more


PERMISSION_EVENT = {
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "x-" + "y" * 5000},
}


def test_linked_projects_directory_is_read_by_link_and_by_real_path(stage: Stage) -> None:
    """Users link directories to dotfiles or another disk. claude names a file by the link or by its real path."""
    disk = stage.home / "disk" / "claude-projects"
    disk.mkdir(parents=True)
    stage.projects.parent.mkdir()
    stage.projects.symlink_to(disk)
    stage.write(message("2026-01-01T00:00:00.000Z"), message(stage.soon()))
    as_named = stage.spawn_with_events(tool_event())
    assert stage.wait_counted(as_named)["tokens_used"] == 15, "older messages are not its own"
    by_disk = stage.spawn_with_events(tool_event(), transcript=disk / "w" / f"{ID}.jsonl")
    assert stage.wait_counted(by_disk)["tokens_used"] == 15
    for session_id in (as_named, by_disk):
        assert "Write → /w/secret-plan" in stage.sm("tail", session_id)


def test_tokens_are_unknown_while_the_transcript_cannot_be_read(stage: Stage) -> None:
    session_id = stage.spawn_with_events(tool_event())
    until(lambda: stage.view(session_id, "progress")["current_activity"], "its hook event")
    shown = stage.view(session_id, "progress")
    unknown = (
        "tokens",
        "tokens_used",
        "subagents",
        "cost_usd",
        "tokens_remaining_estimate",
        "context_tokens",
    )
    assert {shown[name] for name in unknown} == {None}
    stage.write(message(stage.soon()))
    assert stage.wait_counted(session_id)["tokens_used"] == 15


@pytest.mark.parametrize("at", ["9999-99-99T00:00:00Z", "9999-12-31T23:59:59.999999Z", FAR])
def test_invalid_or_future_times_on_disk_break_no_view(stage: Stage, at: Any) -> None:
    session_id = stage.spawn_with_events(tool_event())
    until(lambda: stage.view(session_id, "progress")["current_activity"], "its hook event")
    stage.write(message("9999-99-99T00:00:00Z"), message(FAR), message(stage.soon(3600)))
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.state / "sm.db")) as store, store:
        stored = {"last_tool": {"name": "Write", "args": TOOL, "timestamp": at}, "todo": []}
        store.execute("INSERT OR REPLACE INTO observed VALUES (?, ?)", (session_id, json.dumps(stored)))
    stage.start_daemon()
    last = stage.json("progress", session_id)["last_tool"]
    # A future time is replaced by the time of reading.
    assert last is None or datetime.fromisoformat(last["timestamp"]).timestamp() <= stage.now().timestamp()
    stage.sm("progress", session_id)
    for command in ("tail", "what", "why"):
        assert "secret-plan" not in stage.sm(command, session_id), "its time is unknown"


def test_sibling_sees_progress_numbers_but_no_texts_or_arguments(stage: Stage) -> None:
    stage.write(message(stage.soon()))
    at_work = stage.spawn_with_events(tool_event())
    asks = stage.spawn_with_events(PERMISSION_EVENT, transcript=stage.projects / "w" / "none.jsonl")
    until(lambda: stage.session(asks)["status"] == "waiting_input", "it asks for permission")
    stage.wait_counted(at_work)
    progress, why = stage.view(at_work, "progress"), stage.view(asks, "why")
    assert progress["current_activity"] == "Bash: do-the-secret"
    assert (progress["last_tool"]["name"], progress["last_tool"]["args"]) == ("Write", TOOL)
    until(lambda: "secret-screen" in str(stage.view(at_work, "progress")["last_output"]), "its screen")
    assert any("x-yyy" in evidence["reason"] for evidence in why["evidence"])

    sibling = stage.as_session(stage.spawn("Inbox", "x")["session_id"])

    def as_sibling(name: str, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = stage.json(name, session_id, env=sibling)
        return found

    answer = as_sibling("progress", at_work)
    answer["last_tool"]["seconds_ago"] = progress["last_tool"]["seconds_ago"]
    clocks = {"elapsed_seconds", "idle_seconds"}
    hidden: dict[str, Any] = {
        "last_tool": {**progress["last_tool"], "args": {}},
        "current_activity": None,
        "todo": None,
        "last_output": [],
    }
    expected = progress | hidden
    assert {k: v for k, v in answer.items() if k not in clocks} == {
        k: v for k, v in expected.items() if k not in clocks
    }
    assert "secret" not in json.dumps(answer)

    answer = as_sibling("why", asks)
    assert [evidence["reason"] for evidence in answer["evidence"]] == [None] * len(why["evidence"])
    assert (answer["status"], answer["status_source"]) == ("waiting_input", "hook")
    assert answer["status_reason"].startswith("claude asks for permission: Bash: x-yyy")
    assert len(answer["status_reason"]) <= 200
    assert len(stage.session(asks)["status_reason"]) <= 250, "with the words of sm"


def test_session_sees_its_own_current_activity(stage: Stage) -> None:
    session_id = stage.spawn_with_events(tool_event())
    shown = stage.json("progress", "me", env=stage.as_session(session_id))
    assert shown["current_activity"] == "Bash: do-the-secret"


def test_hook_event_with_an_invalid_time_is_refused(stage: Stage) -> None:
    session_id, payload = stage.spawn_with_events(tool_event()), {"hook_event_name": "Stop", "session_id": ID}
    for at in ("0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "2026-01-01T00:00:00", "x", ""):
        body = {"provider": "claude", "emitted_at": at, "payload": payload}
        ((code, message, _),) = stage.request_as(session_id, ("POST", "/v1/hooks", None, body))
        assert code == "usage", at
        assert message.startswith("emitted_at must "), at
