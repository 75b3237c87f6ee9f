"""What the daemon shows of agents whose files are not as they should be, and to whom. The agent plays claude."""

import json
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
# Each line of its prompt is an event of its hooks, or a command.
CLAUDE = """#!{python}
import subprocess, sys, time
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
    """After the beginning of every session of these tests."""
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


class Played(Instance):
    """An instance whose claude only tells the events that it is told to tell."""

    def __init__(self) -> None:
        super().__init__(config="{}")
        program = self.home / "bin" / "claude"
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
            file.write("".join(f"{each}\n" for each in lines))

    def plays(self, *events: dict[str, Any], transcript: Path | None = None, then: str = "") -> str:
        """The id of a session whose claude has told `events`, and that its transcript is here."""
        named = {"transcript_path": str(transcript or self.transcript)}
        told = (STARTED, *({**each, **named, "session_id": ID} for each in events))
        prompt = "\n".join([*(json.dumps(each) for each in told), f"$ {then}"])
        return str(self.spawn("Plain", prompt)["session_id"])

    def get(self, session_id: str, what: str) -> Any:
        return Client(str(self.socket)).get(f"/v1/sessions/{session_id}/{what}")

    def counted(self, session_id: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.get(session_id, "progress")
            return found if found["tokens"] is not None and found["tokens_used"] else None

        return until(look, "its tokens are counted", 10)


@pytest.fixture
def played() -> Iterator[Played]:
    instance = Played()
    yield instance
    instance.end()


def works(tool: str = "Bash", **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": {"command": "do-the-secret"},
    } | more


ASKS = {
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "x-" + "y" * 5000},
}


def test_projects_directory_elsewhere_is_read_by_either_name(played: Played) -> None:
    """A person's own links: dotfiles, another disk. claude names a file as it was told to, or by where it is."""
    disk = played.home / "disk" / "claude-projects"
    disk.mkdir(parents=True)
    played.projects.parent.mkdir()
    played.projects.symlink_to(disk)
    played.write(message("2026-01-01T00:00:00.000Z"), message(soon()))
    as_named = played.plays(works())
    assert played.counted(as_named)["tokens_used"] == 15, "what came before it is not its own"
    by_disk = played.plays(works(), transcript=disk / "w" / f"{ID}.jsonl")
    assert played.counted(by_disk)["tokens_used"] == 15
    for session_id in (as_named, by_disk):
        assert "Write → /w/secret-plan" in played.sm("tail", session_id)


def test_transcript_that_cannot_be_read_is_not_nothing(played: Played) -> None:
    session_id = played.plays(works())
    until(lambda: played.get(session_id, "progress")["current_activity"], "its hook was heard")
    shown = played.get(session_id, "progress")
    unknown = (
        "tokens",
        "tokens_used",
        "subagents",
        "cost_usd",
        "tokens_remaining_estimate",
        "context_tokens",
    )
    assert {shown[name] for name in unknown} == {None}
    played.write(message(soon()))
    assert played.counted(session_id)["tokens_used"] == 15


@pytest.mark.parametrize("at", ["9999-99-99T00:00:00Z", "9999-12-31T23:59:59.999999Z", FAR])
def test_no_time_on_disk_breaks_a_view(played: Played, at: Any) -> None:
    session_id = played.plays(works())
    until(lambda: played.get(session_id, "progress")["current_activity"], "its hook was heard")
    played.write(message("9999-99-99T00:00:00Z"), message(FAR), message(soon(3600)))
    played.kill_daemon()
    with sqlite3.connect(played.state / "sm.db") as store:
        stored = {"last_tool": {"name": "Write", "args": TOOL, "timestamp": at}, "todo": []}
        store.execute("INSERT OR REPLACE INTO observed VALUES (?, ?)", (session_id, json.dumps(stored)))
    played.start_daemon()
    last = played.json("progress", session_id)["last_tool"]
    # A time to come was taken for the time at which it was read; nothing is in its way.
    assert last is None or datetime.fromisoformat(last["timestamp"]).timestamp() <= time.time()
    played.sm("progress", session_id)
    for command in ("tail", "what", "why"):
        assert "secret-plan" not in played.sm(command, session_id), "nobody knows when that was"


def test_sibling_sees_how_far_one_is_and_not_what_it_does(played: Played) -> None:
    played.write(message(soon()))
    at_work = played.plays(works())
    asks = played.plays(ASKS, transcript=played.projects / "w" / "none.jsonl")
    until(lambda: played.session(asks)["status"] == "waiting_input", "it asks")
    played.counted(at_work)
    progress, why = played.get(at_work, "progress"), played.get(asks, "why")
    assert progress["current_activity"] == "Bash: do-the-secret"
    assert (progress["last_tool"]["name"], progress["last_tool"]["args"]) == ("Write", TOOL)
    until(
        lambda: "secret-screen" in str(played.get(at_work, "progress")["last_output"]), "it is on its screen"
    )
    assert any("x-yyy" in each["reason"] for each in why["evidence"])

    def as_sibling(name: str, session_id: str) -> dict[str, Any]:
        out = played.home / f"{name}-{session_id}"
        told = f"sm {name} {session_id} --json >{out}.new; mv {out}.new {out}; sleep 1000"
        played.spawn("Sh", told)
        until(out.exists, "the sibling was told")
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    told = as_sibling("progress", at_work)
    told["last_tool"]["seconds_ago"] = progress["last_tool"]["seconds_ago"]
    clocks = {"elapsed_seconds", "idle_seconds"}
    hidden: dict[str, Any] = {
        "last_tool": {**progress["last_tool"], "args": {}},
        "current_activity": None,
        "todo": None,
        "last_output": [],
    }
    expected = progress | hidden
    assert {k: v for k, v in told.items() if k not in clocks} == {
        k: v for k, v in expected.items() if k not in clocks
    }
    assert "secret" not in json.dumps(told)

    told = as_sibling("why", asks)
    assert [each["reason"] for each in told["evidence"]] == [None] * len(why["evidence"])
    assert (told["status"], told["status_source"]) == ("waiting_input", "hook")
    assert told["status_reason"].startswith("it asks for permission: Bash: x-yyy")
    assert len(told["status_reason"]) <= 200
    assert len(played.session(asks)["status_reason"]) <= 250, "with our own words"


def test_session_sees_what_it_does_itself(played: Played) -> None:
    out = played.home / "told"
    played.plays(works(), then=f"sm progress me --json >{out}.new; mv {out}.new {out}")
    until(out.exists, "it was told")
    assert json.loads(out.read_text())["current_activity"] == "Bash: do-the-secret"


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "2026-01-01T00:00:00", "x", ""]
)
def test_hook_of_no_time_is_refused(played: Played, at: str) -> None:
    out, tell = played.home / "told", played.home / "tell.py"
    body = {"provider": "claude", "emitted_at": at, "payload": {"hook_event_name": "Stop", "session_id": ID}}
    tell.write_text(
        "from sm.client.http import Client\n"
        "from sm.errors import UsageError\n"
        f"try: said = Client({str(played.socket)!r}).post('/v1/hooks', {body!r})\n"
        "except UsageError as error: said = error.message\n"
        f"open('{out}.new', 'w').write(str(said))\n"
    )
    played.plays(works(), then=f"{sys.executable} {tell}; mv {out}.new {out}")
    until(out.exists, "it was answered")
    assert out.read_text().startswith("emitted_at must ")
