"""Views of agents with odd transcripts, and what siblings may see. A script stands in for claude."""

import json
import mmap
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from tests.instance import Instance, until

CONFIG = """
default_trust: direct
tmux: {{socket_name: test}}
commands:
  Sh: {{command: [sh, -c]}}
claude:
  default_command: [{claude}]
  agent_configs: {{Plain: {{args: []}}}}
child_agents: {{progress: {{snapshot_interval: 1}}}}
"""
# Each line of the prompt is a hook event or a shell command.
CLAUDE = """#!{python}
import subprocess, sys, time, tty
tty.setraw(0)  # in line mode, it would count as suspended
for line in sys.argv[-1].strip().splitlines():
    if line.startswith("$"):
        subprocess.run(["sh", "-c", line[1:]])
    else:
        subprocess.run(["sm", "hook", "claude"], input=line.encode())
print("secret-screen", flush=True)
time.sleep(1000)
"""
ID = "5e55aaaa-0000-4000-8000-000000000001"
STARTED = {"hook_event_name": "SessionStart", "source": "startup", "session_id": ID}
TOOL = {"file_path": "/w/secret-plan"}
FAR = "2999-01-01T00:00:00.000Z"


def soon(seconds: int = 30) -> str:
    """A time after the start of every session of these tests."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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


class Stage(Instance):
    """An instance whose claude sends only the hook events in its prompt."""

    def __init__(self) -> None:
        super().__init__(config="{}")
        program = self.home / "bin" / "stand-in"
        program.parent.mkdir()
        program.write_text(CLAUDE.format(python=sys.executable))
        program.chmod(0o700)
        self.config.write_text(CONFIG.format(claude=program))
        self.projects = self.home / ".claude" / "projects"
        self.start_daemon()

    @property
    def transcript(self) -> Path:
        return self.projects / "w" / f"{ID}.jsonl"

    def write(self, *lines: str, transcript: Path | None = None) -> None:
        path = transcript or self.transcript
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def spawn_with_events(
        self, *events: dict[str, Any], transcript: Path | None = None, then: str = ""
    ) -> str:
        """Spawn a claude that sends `events` and names this transcript; return the session id."""
        named = {"transcript_path": str(transcript or self.transcript)}
        lines = (STARTED, *({**event, **named, "session_id": ID} for event in events))
        prompt = "\n".join([*map(json.dumps, lines), f"$ {then}"])
        return str(self.spawn("Plain", prompt)["session_id"])

    def get(self, session_id: str, what: str) -> Any:
        return Client(str(self.socket)).get(f"/v1/sessions/{session_id}/{what}")

    def wait_counted(self, session_id: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            progress: dict[str, Any] = self.get(session_id, "progress")
            return progress if progress["tokens"] is not None and progress["tokens_used"] else None

        return until(look, "its tokens are counted", 10)


@pytest.fixture
def stage() -> Iterator[Stage]:
    instance = Stage()
    yield instance
    instance.end()


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
    stage.write(message("2026-01-01T00:00:00.000Z"), message(soon()))
    as_named = stage.spawn_with_events(tool_event())
    assert stage.wait_counted(as_named)["tokens_used"] == 15, "older messages are not its own"
    by_disk = stage.spawn_with_events(tool_event(), transcript=disk / "w" / f"{ID}.jsonl")
    assert stage.wait_counted(by_disk)["tokens_used"] == 15
    for session_id in (as_named, by_disk):
        assert "Write → /w/secret-plan" in stage.sm("tail", session_id)


def test_tokens_are_unknown_while_the_transcript_cannot_be_read(stage: Stage) -> None:
    session_id = stage.spawn_with_events(tool_event())
    until(lambda: stage.get(session_id, "progress")["current_activity"], "its hook event")
    shown = stage.get(session_id, "progress")
    unknown = (
        "tokens",
        "tokens_used",
        "subagents",
        "cost_usd",
        "tokens_remaining_estimate",
        "context_tokens",
    )
    assert {shown[name] for name in unknown} == {None}
    stage.write(message(soon()))
    assert stage.wait_counted(session_id)["tokens_used"] == 15


def test_change_that_the_system_does_not_report_is_found_after_the_snapshot_interval(stage: Stage) -> None:
    """inotify does not report a write to mapped memory. The default interval of 30 s is longer than the wait."""
    first, second = (f"{message(soon(seconds))}\n" for seconds in (30, 31))
    stage.transcript.parent.mkdir(parents=True)
    stage.transcript.write_text(first + " " * len(second))  # a line without its end is not read
    session_id = stage.spawn_with_events(tool_event())
    assert stage.wait_counted(session_id)["tokens_used"] == 15
    with stage.transcript.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[len(first) :] = second.encode()
        mapped.flush()
    until(lambda: stage.get(session_id, "progress")["tokens_used"] == 30, "the second line is counted", 10)


@pytest.mark.parametrize("at", ["9999-99-99T00:00:00Z", "9999-12-31T23:59:59.999999Z", FAR])
def test_invalid_or_future_times_on_disk_break_no_view(stage: Stage, at: Any) -> None:
    session_id = stage.spawn_with_events(tool_event())
    until(lambda: stage.get(session_id, "progress")["current_activity"], "its hook event")
    stage.write(message("9999-99-99T00:00:00Z"), message(FAR), message(soon(3600)))
    stage.kill_daemon()
    with sqlite3.connect(stage.state / "sm.db") as store:
        stored = {"last_tool": {"name": "Write", "args": TOOL, "timestamp": at}, "todo": []}
        store.execute("INSERT OR REPLACE INTO observed VALUES (?, ?)", (session_id, json.dumps(stored)))
    stage.start_daemon()
    last = stage.json("progress", session_id)["last_tool"]
    # A future time is replaced by the time of reading.
    assert last is None or datetime.fromisoformat(last["timestamp"]).timestamp() <= time.time()
    stage.sm("progress", session_id)
    for command in ("tail", "what", "why"):
        assert "secret-plan" not in stage.sm(command, session_id), "its time is unknown"


def test_sibling_sees_progress_numbers_but_no_texts_or_arguments(stage: Stage) -> None:
    stage.write(message(soon()))
    at_work = stage.spawn_with_events(tool_event())
    asks = stage.spawn_with_events(PERMISSION_EVENT, transcript=stage.projects / "w" / "none.jsonl")
    until(lambda: stage.session(asks)["status"] == "waiting_input", "it asks for permission")
    stage.wait_counted(at_work)
    progress, why = stage.get(at_work, "progress"), stage.get(asks, "why")
    assert progress["current_activity"] == "Bash: do-the-secret"
    assert (progress["last_tool"]["name"], progress["last_tool"]["args"]) == ("Write", TOOL)
    until(lambda: "secret-screen" in str(stage.get(at_work, "progress")["last_output"]), "its screen")
    assert any("x-yyy" in evidence["reason"] for evidence in why["evidence"])

    def as_sibling(name: str, session_id: str) -> dict[str, Any]:
        out = stage.home / f"{name}-{session_id}"
        stage.spawn("Sh", f"sm {name} {session_id} --json >{out}.new; mv {out}.new {out}; sleep 1000")
        until(out.exists, "the answer to the sibling")
        result: dict[str, Any] = json.loads(out.read_text())
        return result

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
    out = stage.home / "told"
    stage.spawn_with_events(tool_event(), then=f"sm progress me --json >{out}.new; mv {out}.new {out}")
    until(out.exists, "the answer")
    assert json.loads(out.read_text())["current_activity"] == "Bash: do-the-secret"


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "2026-01-01T00:00:00", "x", ""]
)
def test_hook_event_with_an_invalid_time_is_refused(stage: Stage, at: str) -> None:
    out, script = stage.home / "told", stage.home / "tell.py"
    body = {"provider": "claude", "emitted_at": at, "payload": {"hook_event_name": "Stop", "session_id": ID}}
    script.write_text(
        "from sm.client.http import Client\n"
        "from sm.errors import UsageError\n"
        f"try: result = Client({str(stage.socket)!r}).post('/v1/hooks', {body!r})\n"
        "except UsageError as error: result = error.message\n"
        f"open('{out}.new', 'w').write(str(result))\n"
    )
    stage.spawn_with_events(tool_event(), then=f"{sys.executable} {script}; mv {out}.new {out}")
    until(out.exists, "the answer")
    assert out.read_text().startswith("emitted_at must ")
