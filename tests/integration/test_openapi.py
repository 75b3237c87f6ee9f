"""What a real daemon answers is what docs/openapi.json says: every route, by the operator and from within a session."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sm.api.openapi import document
from sm.core.timestamps import later
from sm.wire import KEY_HEADER
from tests.instance import Instance, until
from tests.speaking import Speaker

DOOR = Path(__file__).with_name("door.py")
TALK = "0f0e0d0c-0b0a-4908-8706-050403020100"
# A stand-in for claude, run as a shell of that name: it tells its hooks what its prompt holds, and waits.
CLAUDE = """
for told; do :; done
[ "${told# }" != door ] || exec PYTHON DOOR
[ -z "$SM_SESSION_ID" ] || echo "$told" | while read -r event; do echo "$event" | sm hook claude; done
while read -r key; do :; done
"""
CONFIG = """
default_trust: direct
tmux: {{socket_name: test}}
commands:
  Sh: {{command: [sh, -c]}}
  Sleeper: {{command: [sleep, "1000"], prompt: file}}
  Door: {{command: [{python}, {door}], prompt: file}}
claude:
  default_command: [{claude}, {script}]
  agent_configs: {{Plain: {{args: []}}}}
child_agents: {{progress: {{snapshot_interval: 1}}}}
limits: {{spawn_interval_s: 0}}
"""


class Story:
    """An instance, its operator, and a session (`door`) through which a second caller speaks."""

    def __init__(self) -> None:
        self.instance = Instance(config="{}")
        try:
            self.operator, self.session, self.door = self._begins()
        except BaseException:
            self.instance.end()
            raise

    def _begins(self) -> tuple[Speaker, Speaker, str]:
        home, work = self.instance.home, self.instance.work
        claude = home / "bin" / "claude"
        claude.parent.mkdir()
        claude.symlink_to("/bin/sh")
        script = home / "fake"
        script.write_text(CLAUDE.replace("PYTHON", sys.executable).replace("DOOR", str(DOOR)))
        config = CONFIG.format(python=sys.executable, door=DOOR, claude=claude, script=script)
        self.instance.config.write_text(config)
        self.instance.start_daemon()
        operator = Speaker(self.instance.socket)
        spawned = operator.post(
            "/v1/sessions", agent_type="Door", name="way", title="the way in", **self._here()
        )
        until((work / "door").exists, "the door is open")
        return operator, Speaker(work / "door"), spawned["session_id"]

    def spawn(self, agent_type: str, prompt: str | None = None, **more: Any) -> str:
        body = {"agent_type": agent_type, "prompt": prompt, **self._here(), **more}
        return str(self.operator.post("/v1/sessions", **body)["session_id"])

    def _here(self) -> dict[str, Any]:
        """Where a person runs `sm`, as it tells the daemon."""
        return {"cwd": str(self.instance.work), "environment": self.instance.env}

    def end(self) -> None:
        self.session.close()
        self.operator.close()
        self.instance.end()


@pytest.fixture
def story() -> Iterator[Story]:
    made = Story()
    yield made
    made.end()


def test_every_route_answers_as_it_is_documented(story: Story) -> None:
    operator, session, door = story.operator, story.session, story.door
    looks(operator, door)
    works(session, operator, door)
    writes(session, operator, door)
    asks(session, operator, door)
    teams(story)
    talks(story)
    asker = has_dialogs(story)
    goes_on(story)
    ends(story)
    operations = {
        o["operationId"] for p in document()["paths"].values() for o in p.values() if "operationId" in o
    }
    heard = {
        name for speaker in (operator, session, asker) for name, status in speaker.heard if status == 200
    }
    assert operations - heard == set(), "no story tells of them"


def looks(operator: Speaker, door: str) -> None:
    operator.get("/v1/health")
    operator.get("/v1/status")
    assert {"Sh", "Plain"} <= {a["name"] for a in operator.get("/v1/agents")["agents"]}
    assert [s["title"] for s in operator.get("/v1/sessions", status="running", search="way in")] == [
        "the way in"
    ]
    for path in ("/v1/who", "/v1/others"):
        assert len(operator.get(path)) == 1
    one = "/v1/sessions/{ref}"
    assert operator.get(one, "door-way")["session_id"] == door
    for what in ("output", "attach", "progress", "why", "actions", "checkpoints"):
        operator.get(f"{one}/{what}", door)
    operator.post(f"{one}/what", door)
    assert operator.refused(f"{one}/kill", "ffff")["code"] == "not_found"


def works(session: Speaker, operator: Speaker, door: str) -> None:
    me = session.get("/v1/me")
    assert me["session_id"] == door
    session.post("/v1/sessions/me/note", text="at the (1/2 tasks)")
    session.post("/v1/sessions/me/checkpoints", message="half (1/2 tasks)", metadata={"n": [1, {"a": None}]})
    session.post(
        "/v1/hooks", provider="claude", emitted_at=me["created_at"], payload={"hook_event_name": "Stop"}
    )
    child = session.post("/v1/sessions", agent_type="Sh", prompt="exit 3", wait_s=20, key="one")["session_id"]
    assert (
        session.post("/v1/sessions", agent_type="Sh", prompt="exit 3", wait_s=20, key="one")["session_id"]
        == child
    )
    told = session.post("/v1/wait", sessions=[child], wait_s=20)
    assert told["reached"] and told["sessions"][0]["exit_code"] == 3
    session.post("/v1/wait/heard", sessions=[child])
    assert "last_output" in session.get("/v1/sessions/{ref}", child)
    (top,) = operator.get("/v1/sessions/{ref}/children", "-", recursive=1, archived=1)
    assert [c["session_id"] for c in top["children"]] == [child]
    session.post("/v1/sessions/{ref}/archive", child)
    session.post("/v1/sessions/{ref}/unarchive", child)
    events = operator.get("/v1/events", session=door, recursive=1)["events"]
    assert {"spawned", "checkpoint", "note", "error"} <= {e["type"] for e in events}
    event = json.loads(operator.first_event(since=0).partition("data: ")[2])
    assert event == operator.get("/v1/events", since=0, limit=1)["events"][0]
    operator.post("/v1/sessions/{ref}/reparent", child, parent=None)
    operator.post("/v1/sessions/{ref}/restore", child)
    operator.post("/v1/wait", sessions=[child], wait_s=20)
    operator.post("/v1/sessions/{ref}/remove", child)


def writes(session: Speaker, operator: Speaker, door: str) -> None:
    sent = operator.post("/v1/messages", to=door, text="hello", mode="urgent", ttl_s=60)
    assert sent["status"] == "queued"
    assert [m["message_id"] for m in session.get("/v1/inbox")] == [sent["message_id"]]
    (taken,) = session.post("/v1/inbox/take", wait_s=5)
    assert (taken["text"], taken["status"]) == ("hello", "delivering")
    (arrived,) = session.post("/v1/inbox/confirm", message_ids=[taken["message_id"]])
    assert arrived["status"] == "submitted"
    operator.get("/v1/messages/{id}", sent["message_id"], wait_s=5)
    assert operator.get("/v1/messages", session=door, limit=5)[0]["text"] == "hello"
    assert len(operator.get("/v1/audience", recursive=1)) == 1


def asks(session: Speaker, operator: Speaker, door: str) -> None:
    first = session.post("/v1/requests", question="red?", options=["yes", "no"], expires_s=100)["request_id"]
    (seen,) = operator.get("/v1/requests", session=door)
    assert (seen["request_id"], seen["options"]) == (first, ["yes", "no"])
    operator.post("/v1/requests/{ref}/answer", first, answers=["1"], message="sure")
    assert session.get("/v1/requests/{ref}", first, wait_s=5)["answer"]["answers"] == ["yes"]
    session.post("/v1/requests/{ref}/taken", first)
    session.post("/v1/requests", question="blue?")
    answered = operator.post("/v1/messages", to=door, text="no")
    assert answered["message_id"] is None and answered["request_id"] != first
    assert len(operator.get("/v1/requests", all=1)) == 2


def teams(story: Story) -> None:
    operator, work = story.operator, story.instance.work
    team = work / "team"
    team.mkdir()
    operator.post(
        "/v1/workspaces", slug="team", working_dir=str(team), trust="direct", capabilities={"mcps": ["a"]}
    )
    operator.post("/v1/workspaces/{slug}", "team", trust=None, strict_mcps=True, sandbox={"memory": "2g"})
    member = story.spawn("Sh", "exit 0", workspace="team", wait_s=20)
    operator.post("/v1/wait", sessions=[member], wait_s=20)
    assert [s["workspace"] for s in operator.get("/v1/sessions", workspace="team")] == ["team"]
    operator.get("/v1/events", workspace="team")
    operator.get("/v1/status", workspace="-")
    assert operator.get("/v1/workspaces/{slug}", "team")["sessions"] == 1
    operator.post("/v1/workspaces/{slug}/delete", "team")
    assert [w["slug"] for w in operator.get("/v1/workspaces", deleted=1)] == ["team"]


def talks(story: Story) -> None:
    """An agent that is observed has more to tell: evidence, tools, a list of tasks."""
    operator, instance = story.operator, story.instance
    transcript = instance.home / ".claude" / "projects" / "w" / f"{TALK}.jsonl"
    transcript.parent.mkdir(parents=True)
    of_all = {"session_id": TALK, "transcript_path": str(transcript)}
    events = [
        {"hook_event_name": "SessionStart", "source": "startup", **of_all},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, **of_all},
    ]
    talker = story.spawn("Plain", "\n".join(map(json.dumps, events)))
    todo = {"todos": [{"content": "see", "status": "completed", "activeForm": "seeing"}]}
    at = later(instance.session(talker)["created_at"], 30)  # what came before it would not be its own
    lines = [
        {
            "type": "assistant",
            "timestamp": at,
            "message": {
                "id": f"msg_{name}",
                "model": "claude-opus-4-8",
                "content": [{"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}],
                "usage": {"input_tokens": 10, "output_tokens": 5},
            },
        }
        for name, given in (("TodoWrite", todo), ("Bash", {"command": "ls"}))
    ]
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    one = "/v1/sessions/{ref}"
    shown = until(
        lambda: p if (p := operator.get(f"{one}/progress", talker))["tokens_used"] else None,
        "its tokens are counted",
    )
    assert shown["last_tool"] and shown["todo"] and shown["tools_used"] == {"TodoWrite": 1, "Bash": 1}
    assert operator.get(f"{one}/why", talker)["evidence"]
    assert {a["kind"] for a in operator.get(f"{one}/actions", talker)} >= {"tool", "event"}
    operator.post(f"{one}/interrupt", talker)
    operator.post(f"{one}/fork", talker, name="other")


def has_dialogs(story: Story) -> Speaker:
    """Its hook waits for the answer, and takes it."""
    operator, directory = story.operator, story.instance.work / "asks"
    directory.mkdir()
    story.spawn("Plain", "door", working_dir=str(directory))
    until((directory / "door").exists, "the door is open")
    with closing(Speaker(directory / "door")) as asker, ThreadPoolExecutor(1) as pool:
        of_all = {"emitted_at": asker.get("/v1/me")["created_at"], "provider": "claude", "key": "its hook"}
        started = {"hook_event_name": "SessionStart", "source": "startup"}
        asker.post("/v1/hooks", **{**of_all, "key": "start"}, payload=started)
        payload = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"n": 1}}
        asked = asker.post("/v1/hooks/dialog", **of_all, payload=payload, cut=True)
        assert (asked["state"], asked["output"]) == ("open", None)
        answered = pool.submit(
            operator.post, "/v1/requests/{ref}/answer", asked["request"], approved=True, message="once"
        )
        told = asker.post("/v1/hooks/dialog", **of_all, payload=payload, cut=True, wait_s=20)
        assert told["state"] == "decided" and json.loads(told["output"])
        asker.post("/v1/hooks/dialog/taken", key="its hook")
        done = answered.result()
        assert (done["state"], done["arguments"], done["cut"]) == ("answered", {"n": 1}, True)
    return asker


def goes_on(story: Story) -> None:
    operator, instance = story.operator, story.instance
    claude, script = instance.home / "bin" / "claude", instance.home / "fake"
    instance.tmux("new-session", "-d", "-s", "mine", "-c", str(instance.work), f"{claude} {script}")
    pane = instance.tmux("display-message", "-p", "-t", "=mine:", "#{pane_id}").strip()
    operator.post("/v1/adopt", pane=pane, name="mine")
    operator.post("/v1/restore")


def ends(story: Story) -> None:
    operator, session, door = story.operator, story.session, story.door
    child = session.post("/v1/sessions", agent_type="Sleeper")["session_id"]
    assert session.post("/v1/sessions/me/complete", message="done", status="completed")["warnings"]
    assert operator.post("/v1/sessions/{ref}/kill", door, tree=True)["killed_too"][0]["session_id"] == child
    operator.post("/v1/daemon/stop", all=True)


def test_no_nesting_is_a_defect(story: Story) -> None:
    """orjson reads 1,024 levels and writes 254, and Python shows a value of about as many as it can call functions."""
    for depth in (150, 254, 1000):
        deep = '{"a":' * depth + "1" + "}" * depth
        for path, body in (
            ("/v1/sessions/me/checkpoints", f'{{"message": "deep", "metadata": {deep}}}'),
            ("/v1/sessions/me/note", f'{{"text": "flat", "unknown": [{deep}]}}'),
            ("/v1/hooks", f'{{"emitted_at": "2026-01-01T00:00:00Z", "payload": {deep}}}'),
        ):
            for headers in ({}, {KEY_HEADER: f"{depth}"}):
                answer = story.session.ask("post", path, path, data=body, headers=headers)
                assert answer.json()["error"]["code"] == "usage"


def test_no_number_is_too_large_for_the_database(story: Story) -> None:
    for number in (-1, 10**18, 2**63, 2**64 - 1):
        assert story.operator.refused("/v1/inbox/confirm", message_ids=[number])["code"] in (
            "usage",
            "not_found",
        )
