"""Every route of a real daemon answers as docs/openapi.json says, to the operator and to a session."""

import asyncio
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
from sm.wire_types.live_answers import LiveRowView
from tests import telegram_instance
from tests.api_client import ApiClient
from tests.claude_cli import answer_first_questions
from tests.instance import Instance, until
from tests.pair_requests import ask_to_pair
from tests.telegram_api import TelegramApi

PROXY = Path(__file__).with_name("session_proxy.py")
TALK = "0f0e0d0c-0b0a-4908-8706-050403020100"
# A stand-in for claude, run as a shell of that name: it passes each line of its prompt to its hook, or without a prompt
# its start. Each key ends its turn.
CLAUDE = """
stty raw -echo  # in line mode, it would count as suspended
for prompt; do :; done
[ "${prompt#Task: }" != proxy ] || exec PYTHON PROXY
case $prompt in ({*) ;; (*) prompt='{"hook_event_name": "SessionStart", "source": "resume"}' ;; esac
[ -z "$SM_SESSION_ID" ] || echo "$prompt" | while read -r event; do echo "$event" | sm hook claude; done
while read -rsn1 key; do
    [ -z "$SM_SESSION_ID" ] || echo '{"hook_event_name": "Stop"}' | sm hook claude
done
"""
CONFIG = """
default_trust: direct
tmux: {{socket_name: test}}
commands:
  Sh: {{command: [sh, -c]}}
  Sleeper: {{command: [sleep, "1000"], prompt: file}}
  Proxy: {{command: [{python}, {proxy}], prompt: file}}
claude:
  default_command: [{claude}, {script}]
  agent_configs: {{Plain: {{args: []}}}}
child_agents: {{progress: {{snapshot_interval: 1}}}}
limits: {{spawn_interval_s: 0}}
budgets: {{daily_usd: 1000}}
"""

WITH_ENGINE = {
    "followBuild",
    "stopContainer",
    "removeContainer",
    "enterContainer",
    "unusedThings",
    "pruneSandboxes",
}
"""Operations that need a Docker engine: test_sandbox_commands.py uses them."""
WITH_FILE = {"export"}
"""Operations that answer with a file, which is no JSON: test_archives.py uses them."""


class Scenario:
    """An instance, its operator, and a session (`proxy`) through which a second caller sends requests."""

    def __init__(self, telegram: TelegramApi) -> None:
        self.telegram = telegram
        self.instance = Instance(config="{}")
        try:
            self.operator, self.session, self.proxy = self._start()
        except BaseException:
            self.instance.end()
            raise

    def _start(self) -> tuple[ApiClient, ApiClient, str]:
        home, work = self.instance.home, self.instance.work
        answer_first_questions(home)
        claude = home / "bin" / "claude"
        claude.parent.mkdir()
        claude.symlink_to("/bin/bash")
        script = home / "fake"
        script.write_text(CLAUDE.replace("PYTHON", sys.executable).replace("PROXY", str(PROXY)))
        config = CONFIG.format(python=sys.executable, proxy=PROXY, claude=claude, script=script)
        self.instance.config.write_text(config)
        telegram_instance.configure(self.instance, self.telegram)
        asyncio.run(ask_to_pair(self.instance, ("telegram:1", "Ada"), ("telegram:2", "Bob")))
        self.instance.start_daemon()
        operator = ApiClient(self.instance.socket)
        spawned = operator.post(
            "/v1/sessions", agent_type="Proxy", name="way", title="the way in", **self.caller_context()
        )
        until((work / "proxy").exists, "the proxy listens")
        return operator, ApiClient(work / "proxy"), spawned["session_id"]

    def spawn(self, agent_type: str, prompt: str | None = None, **more: Any) -> str:
        body = {"agent_type": agent_type, "prompt": prompt, **self.caller_context(), **more}
        return str(self.operator.post("/v1/sessions", **body)["session_id"])

    def caller_context(self) -> dict[str, Any]:
        """The directory and environment that `sm` reports to the daemon."""
        return {"cwd": str(self.instance.work), "environment": self.instance.env}

    def end(self) -> None:
        self.session.close()
        self.operator.close()
        self.instance.end()


@pytest.fixture
def scenario() -> Iterator[Scenario]:
    with TelegramApi() as telegram:
        scenario = Scenario(telegram)
        yield scenario
        scenario.end()


@pytest.mark.timeout(300)
def test_every_route_answers_as_documented(scenario: Scenario) -> None:
    operator, session, proxy = scenario.operator, scenario.session, scenario.proxy
    use_read_routes(operator, proxy)
    use_report_routes(session, operator, proxy)
    use_message_routes(session, operator, proxy)
    use_file_routes(session, operator, proxy)
    use_request_routes(session, operator, proxy)
    use_workspace_routes(scenario)
    use_review_routes(operator, proxy)
    use_denial_route(scenario)
    use_observation_routes(scenario)
    asker = use_dialog_routes(scenario)
    use_pair_routes(operator)
    use_telegram_routes(operator)
    use_adopt_and_restore(scenario)
    use_end_routes(scenario)
    operations = {
        o["operationId"] for p in document()["paths"].values() for o in p.values() if "operationId" in o
    }
    called = {
        name
        for speaker in (operator, session, asker)
        for name, status in speaker.responses
        if status in (200, 201)
    }
    assert operations - called == WITH_ENGINE | WITH_FILE, "routes that no step uses"


def use_read_routes(operator: ApiClient, proxy: str) -> None:
    assert operator.get("/v1/orphans") == []
    operator.post("/v1/orphans/kill")
    assert operator.post("/v1/sandbox/writable", paths=["/nowhere"])["writable"] == []
    operator.get("/v1/health")
    assert not operator.get("/v1/sandbox")["engine"]["available"]
    operator.post("/v1/sandbox/build", agents=["claude"])
    operator.get("/v1/status")
    assert operator.get("/v1/config")["mistakes"] == []
    assert operator.get("/v1/archives")["held"] == 0
    assert {"Sh", "Plain"} <= {a["name"] for a in operator.get("/v1/agents")["agents"]}
    assert {"Sh", "Plain"} <= {kind["name"] for kind in operator.get("/v1/spawn-choices")["types"]}
    assert [s["title"] for s in operator.get("/v1/sessions", status="running", search="way in")] == [
        "the way in"
    ]
    for path in ("/v1/who", "/v1/others"):
        assert len(operator.get(path)) == 1
    (row,) = operator.get("/v1/overview", ended="1", search="way in")
    assert (row["attention"], row["requests"]) == ("working", [])
    assert operator.get("/v1/overview/rest")["failed"] == 0
    session_path = "/v1/sessions/{ref}"
    assert operator.get(session_path, "proxy-way")["session_id"] == proxy
    for view in ("output", "attach", "progress", "why", "actions", "checkpoints"):
        operator.get(f"{session_path}/{view}", proxy)
    operator.post(f"{session_path}/what", proxy)
    (shown,) = (r for r in operator.first_event("/v1/live")["rows"] if r["session_id"] == proxy)
    assert shown.keys() == LiveRowView.__dataclass_fields__.keys()
    assert operator.first_event(f"{session_path}/screen/stream", proxy)["height"] > 0
    assert operator.get("/v1/usage", by="day", session=proxy, tree=1)["counted"]
    assert operator.get("/v1/usage/report", by="tree")["total"]["sessions"] >= 1
    assert operator.get("/v1/usage/chart", by="tree", parts=20)["step_s"] == 7200
    assert all("sums" in listed for listed in operator.get("/v1/sessions", sums=1))
    assert operator.get("/v1/sessions/{ref}/progress", proxy, tree=1)["tree"]["sessions"] >= 1
    assert operator.get("/v1/timeline", session=proxy)["sessions"][0]["spans"]
    assert operator.get("/v1/digest")["live"]
    assert operator.get("/v1/usage/report")["groups"]
    assert isinstance(operator.get("/v1/search", words="tasks"), list)
    assert operator.refused(f"{session_path}/kill", "ffff")["code"] == "not_found"


def use_report_routes(session: ApiClient, operator: ApiClient, proxy: str) -> None:
    me = session.get("/v1/me")
    assert me["session_id"] == proxy
    assert session.post("/v1/mcp", jsonrpc="2.0", id=1, method="ping") == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {},
    }
    session.post("/v1/sessions/me/note", text="at the (1/2 tasks)")
    session.post("/v1/sessions/me/checkpoints", message="half (1/2 tasks)", metadata={"n": [1, {"a": None}]})
    session.post(
        "/v1/hooks", provider="claude", emitted_at=me["created_at"], payload={"hook_event_name": "Stop"}
    )
    session.post("/v1/hooks/tools", emitted_at=me["created_at"])
    child = session.post("/v1/sessions", agent_type="Sh", prompt="exit 3", wait_s=20, key="one")["session_id"]
    assert (
        session.post("/v1/sessions", agent_type="Sh", prompt="exit 3", wait_s=20, key="one")["session_id"]
        == child
    )
    waited = session.post("/v1/wait", sessions=[child], wait_s=20)
    assert waited["reached"] and waited["sessions"][0]["exit_code"] == 3
    session.post("/v1/wait/heard", sessions=[child])
    operator.post("/v1/seen", sessions=[child])
    assert "last_output" in session.get("/v1/sessions/{ref}", child)
    (top,) = operator.get("/v1/sessions/{ref}/children", "-", recursive=1, archived=1)
    assert [c["session_id"] for c in top["children"]] == [child]
    session.post("/v1/sessions/{ref}/archive", child)
    session.post("/v1/sessions/{ref}/unarchive", child)
    events = operator.get("/v1/events", session=proxy, recursive=1)["events"]
    assert {"spawned", "checkpoint", "note", "error"} <= {e["type"] for e in events}
    assert (
        operator.first_event("/v1/events/stream", since=0)
        == operator.get("/v1/events", since=0, limit=1)["events"][0]
    )
    operator.post("/v1/sessions/{ref}/reparent", child, parent=None)
    operator.post("/v1/sessions/{ref}/rename", child, name="other")
    operator.post("/v1/sessions/{ref}/restore", child)
    operator.post("/v1/wait", sessions=[child], wait_s=20)
    operator.post("/v1/sessions/{ref}/remove", child)


def use_message_routes(session: ApiClient, operator: ApiClient, proxy: str) -> None:
    sent = operator.post("/v1/messages", to=proxy, text="hello", mode="urgent", ttl_s=60)
    assert sent["status"] == "queued"
    assert [m["message_id"] for m in session.get("/v1/inbox")] == [sent["message_id"]]
    (taken,) = session.post("/v1/inbox/take", wait_s=5)
    assert (taken["text"], taken["status"]) == ("hello", "delivering")
    (arrived,) = session.post("/v1/inbox/confirm", message_ids=[taken["message_id"]])
    assert arrived["status"] == "submitted"
    operator.get("/v1/messages/{id}", sent["message_id"], wait_s=5)
    assert operator.get("/v1/messages", session=proxy, limit=5)[0]["text"] == "hello"
    assert len(operator.get("/v1/audience", recursive=1)) == 1
    assert operator.get("/v1/audience", workspace="-") == operator.get("/v1/audience")


def use_file_routes(session: ApiClient, operator: ApiClient, proxy: str) -> None:
    sent, unused = (operator.upload("/v1/files", b"content", name=name) for name in ("a.txt", "b.png"))
    operator.post("/v1/messages", to=proxy, text="look", files=[sent["file_id"]])
    (taken,) = session.post("/v1/inbox/take", wait_s=5)
    session.post("/v1/inbox/confirm", message_ids=[taken["message_id"]])
    assert taken["text"].endswith("/a.txt (text/plain, 7 bytes)")
    assert operator.get("/v1/files")["unused"] == 1
    operator.delete("/v1/files/{file_id}", unused["file_id"])
    operator.refused("/v1/messages", to=proxy, text="look", files=[unused["file_id"]])


def use_request_routes(session: ApiClient, operator: ApiClient, proxy: str) -> None:
    first = session.post("/v1/requests", question="red?", options=["yes", "no"], expires_s=100)["request_id"]
    (shown,) = operator.get("/v1/requests", session=proxy)
    assert (shown["request_id"], shown["options"]) == (first, ["yes", "no"])
    operator.post("/v1/requests/{ref}/answer", first, answers=["1"], message="sure")
    assert session.get("/v1/requests/{ref}", first, wait_s=5)["answer"]["answers"] == ["yes"]
    session.post("/v1/requests/{ref}/taken", first)
    session.post("/v1/requests", question="blue?")
    answered = operator.post("/v1/messages", to=proxy, text="no")
    assert answered["message_id"] is None and answered["request_id"] != first
    assert len(operator.get("/v1/requests", all=1)) == 2


def use_workspace_routes(scenario: Scenario) -> None:
    operator, work = scenario.operator, scenario.instance.work
    team = work / "team"
    team.mkdir()
    operator.post(
        "/v1/workspaces", slug="team", working_dir=str(team), trust="direct", capabilities={"mcps": ["a"]}
    )
    operator.post("/v1/workspaces/{slug}", "team", trust=None, strict_mcps=True, sandbox={"memory": "2g"})
    (team / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "true"}}}')
    (item,) = operator.get("/v1/workspaces/{slug}", "team")["items"]
    agreed = operator.post("/v1/workspaces/{slug}/agree", "team", items=[item["id"]])
    assert [now["state"] for now in agreed["items"]] == ["agreed"]
    member = scenario.spawn("Sh", "exit 0", workspace="team", wait_s=20)
    operator.post("/v1/wait", sessions=[member], wait_s=20)
    assert [s["workspace"] for s in operator.get("/v1/sessions", workspace="team")] == ["team"]
    operator.get("/v1/events", workspace="team")
    operator.get("/v1/status", workspace="-")
    assert operator.get("/v1/workspaces/{slug}", "team")["sessions"] == 1
    operator.post("/v1/workspaces/{slug}/delete", "team")
    assert [w["slug"] for w in operator.get("/v1/workspaces", deleted=1)] == ["team"]


def use_review_routes(operator: ApiClient, proxy: str) -> None:
    assert operator.get("/v1/worktrees") == []
    path = "/v1/sessions/{ref}/review"
    for name in ("a", "b"):
        operator.post(f"{path}/drafts", proxy, text="why?", path=name, side="new", last=3, quote="+x")
    assert [comment["path"] for comment in operator.get(path, proxy)["comments"]] == ["a", "b"]
    (draft,) = operator.post(f"{path}/replace", proxy, drafts=[{"text": "and?"}], shown=[])["comments"]
    assert operator.post(f"{path}/discard", proxy, ids=[draft["id"]])["comments"]
    (draft,) = operator.post(f"{path}/discard", proxy, ids=[1])["comments"]
    assert operator.post(f"{path}/send", proxy, ids=[draft["id"]])["comments"][0]["number"] == 1
    path, url = "/v1/sessions/{ref}/pull-requests", "https://github.com/octo/app/pull/12"
    operator.post(path, proxy, url=url, number=12, branch="sm/way")
    assert [found["url"] for found in operator.get(path, proxy)] == [url]
    news = {
        "kind": "check",
        "name": "build",
        "outcome": "failure",
        "text": "it failed",
        "key": "build 1",
        "url": url,
    }
    path = f"{path}/reports"
    assert operator.ask("post", path, path.format(ref=proxy), json=news).status_code == 200


def use_denial_route(scenario: Scenario) -> None:
    """Deny a proposed completion with a comment."""
    operator, instance = scenario.operator, scenario.instance
    proposer = scenario.spawn("Sh", "exec sleep 1000", lifecycle="supervised")
    instance.sm("complete", "built", env=instance.as_session(proposer))
    (request,) = operator.get("/v1/requests", session=proposer)
    path, asked = "/v1/sessions/{ref}/review/deny", request["request_id"]
    assert operator.post(path, proposer, request=asked, text="not yet")["request_id"] == asked
    instance.sm("kill", proposer, "--force")


def use_observation_routes(scenario: Scenario) -> None:
    """Use the routes that show evidence, tools and tasks of an observed agent."""
    operator, instance = scenario.operator, scenario.instance
    transcript = instance.home / ".claude" / "projects" / "w" / f"{TALK}.jsonl"
    transcript.parent.mkdir(parents=True)
    common = {"session_id": TALK, "transcript_path": str(transcript)}
    events = [
        {"hook_event_name": "SessionStart", "source": "startup", **common},
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, **common},
    ]
    agent = scenario.spawn("Plain", "\n".join(map(json.dumps, events)))
    todo = {"todos": [{"content": "see", "status": "completed", "activeForm": "seeing"}]}
    at = later(instance.session(agent)["created_at"], 30)  # older messages would not be its own
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
    session_path = "/v1/sessions/{ref}"
    shown = until(
        lambda: p if (p := operator.get(f"{session_path}/progress", agent))["tokens_used"] else None,
        "its tokens are counted",
    )
    assert shown["last_tool"] and shown["todo"] and shown["tools_used"] == {"TodoWrite": 1, "Bash": 1}
    assert operator.get(f"{session_path}/why", agent)["evidence"]
    assert {a["kind"] for a in operator.get(f"{session_path}/actions", agent)} >= {"tool", "event"}
    operator.post(f"{session_path}/interrupt", agent)
    assert operator.post(f"{session_path}/pause", agent, for_s=60)["paused"]["until"]
    assert operator.post(f"{session_path}/resume", agent)["paused"] is None
    assert operator.post(f"{session_path}/budget", agent, set="usd=5")["budget"]["limits"]["usd"] == 5
    assert operator.get(f"{session_path}/budget", agent)["above"][-1]["session_id"] is None
    assert operator.get("/v1/budget")["budget"]["limits"]["usd"] == 1000
    assert operator.post("/v1/budget", add="usd=1")["budget"]["limits"]["usd"] == 1001
    operator.post(f"{session_path}/fork", agent, name="other")
    (account,) = operator.get("/v1/accounts")
    assert operator.post("/v1/accounts/{name}/pause", account["name"])[0]["parks"]
    assert operator.post("/v1/accounts/{name}/resume", account["name"])["resumed"]


def use_dialog_routes(scenario: Scenario) -> ApiClient:
    """Answer a dialog while its hook waits, and take the answer."""
    operator, directory = scenario.operator, scenario.instance.work / "asks"
    directory.mkdir()
    scenario.spawn("Plain", "proxy", working_dir=str(directory))
    until((directory / "proxy").exists, "the proxy listens")
    with closing(ApiClient(directory / "proxy")) as agent, ThreadPoolExecutor(1) as pool:
        common = {"emitted_at": agent.get("/v1/me")["created_at"], "provider": "claude", "key": "its hook"}
        started = {"hook_event_name": "SessionStart", "source": "startup"}
        agent.post("/v1/hooks", **{**common, "key": "start"}, payload=started)
        payload = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"n": 1}}
        opened = agent.post("/v1/hooks/dialog", **common, payload=payload, cut=True)
        assert (opened["state"], opened["output"]) == ("open", None)
        answer = pool.submit(
            operator.post, "/v1/requests/{ref}/answer", opened["request"], approved=True, message="once"
        )
        decided = agent.post("/v1/hooks/dialog", **common, payload=payload, cut=True, wait_s=20)
        assert decided["state"] == "decided" and json.loads(decided["output"])
        agent.post("/v1/hooks/dialog/taken", key="its hook")
        done = answer.result()
        assert (done["state"], done["arguments"], done["cut"]) == ("answered", {"n": 1}, True)
        use_rule_routes(operator, agent, pool, common)
    return agent


def use_rule_routes(
    operator: ApiClient, agent: ApiClient, pool: ThreadPoolExecutor, common: dict[str, Any]
) -> None:
    """Write the rule of a dialog while its hook waits, and remove the rule."""
    asked = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "make"}}
    dialog = {**common, "key": "its second hook", "payload": asked}
    name = agent.post("/v1/hooks/dialog", **dialog)["request"]
    line = operator.get("/v1/requests/{ref}/rule", name)["rule"]["line"]
    written = pool.submit(operator.post, "/v1/requests/{ref}/rule", name, line=line)
    assert agent.post("/v1/hooks/dialog", **dialog, wait_s=20)["state"] == "decided"
    agent.post("/v1/hooks/dialog/taken", key="its second hook")
    assert written.result()["answers"] == [name]
    assert operator.post("/v1/config/undo", line=line)["allow"] == "Bash(make)"


def use_pair_routes(operator: ApiClient) -> None:
    first, second = (request["request_id"] for request in operator.get("/v1/pairings")["requests"])
    paired = operator.post("/v1/pairings/{request_id}/approve", first, trust="direct")
    assert operator.get("/v1/pairings")["users"] == [paired]
    assert operator.post("/v1/pairings/{request_id}/deny", second)["state"] == "denied"
    assert operator.post("/v1/pairings/{user}/revoke", paired["user"])["sessions"] == 0


def use_telegram_routes(operator: ApiClient) -> None:
    owners = operator.get("/v1/telegram")["owners"]
    assert operator.post("/v1/telegram/test")["users"] == owners == ["telegram:1001"]


def use_adopt_and_restore(scenario: Scenario) -> None:
    operator, instance = scenario.operator, scenario.instance
    claude, script = instance.home / "bin" / "claude", instance.home / "fake"
    instance.tmux("new-session", "-d", "-s", "mine", "-c", str(instance.work), f"{claude} {script}")
    pane, pid = instance.tmux("display-message", "-p", "-t", "=mine:", "#{pane_id} #{pane_pid}").split()
    until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(bytes(claude)), "it runs")
    operator.post("/v1/adopt", pane=pane, name="mine")
    operator.post("/v1/restore")


def use_end_routes(scenario: Scenario) -> None:
    operator, session, proxy = scenario.operator, scenario.session, scenario.proxy
    child = session.post("/v1/sessions", agent_type="Sleeper")["session_id"]
    assert session.post("/v1/sessions/me/complete", message="done", status="completed")["warnings"]
    assert operator.post("/v1/sessions/{ref}/kill", proxy, tree=True)["killed_too"][0]["session_id"] == child
    operator.post("/v1/daemon/stop", all=True)


def test_deeply_nested_json_is_a_usage_error(scenario: Scenario) -> None:
    """orjson reads 1,024 levels and writes 254; Python's `repr` is limited by its recursion limit."""
    for depth in (150, 254, 1000):
        deep = '{"a":' * depth + "1" + "}" * depth
        for path, body in (
            ("/v1/sessions/me/checkpoints", f'{{"message": "deep", "metadata": {deep}}}'),
            ("/v1/sessions/me/note", f'{{"text": "flat", "unknown": [{deep}]}}'),
            ("/v1/hooks", f'{{"emitted_at": "2026-01-01T00:00:00Z", "payload": {deep}}}'),
        ):
            for headers in ({}, {KEY_HEADER: f"{depth}"}):
                answer = scenario.session.ask("post", path, path, data=body, headers=headers)
                assert answer.json()["error"]["code"] == "usage"


def test_large_message_ids_are_refused_without_a_database_error(scenario: Scenario) -> None:
    for number in (-1, 10**18, 2**63, 2**64 - 1):
        assert scenario.operator.refused("/v1/inbox/confirm", message_ids=[number])["code"] in (
            "usage",
            "not_found",
        )
