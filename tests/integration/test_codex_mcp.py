"""The real codex with the tools of sm, configured by `sm mcp --print-config codex`, against an API on 127.0.0.1.

`./check` does not install codex, whose package has 400 MB: `SM_TEST_CODEX` names the program.
"""

import json
import os
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.instance import Instance

CODEX = os.environ.get("SM_TEST_CODEX", "")
pytestmark = pytest.mark.skipif(not CODEX, reason="SM_TEST_CODEX names no codex")
CONFIG = """
  Asker: {command: [sh, -c, "exec sm ask 'which colour?' --option red --option blue --wait 600"], prompt: file}
limits: {spawn_interval_s: 0}
"""
PROVIDER = """
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
"""
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("create_session", {"title": "Part 1", "agent_name": "Asker", "initial_message": "x"}),
    ("wait_for_sessions", {"timeout_s": 600}),
    ("complete_session", {"message": "done"}),
)
OPTIONS = "--json --skip-git-repo-check --strict-config --dangerously-bypass-approvals-and-sandbox"
instance = context_fixture("function", Instance, CONFIG)


class Model(BaseHTTPRequestHandler):
    """A model that uses one tool of `STEPS` after the other, once codex has connected to the server."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send("application/json", b'{"models": []}')

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        item = self._answer(request)
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = (
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": "r", "usage": usage}},
        )
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send("text/event-stream", lines.encode())

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        outputs = [i for i in request["input"] if i.get("type") == "function_call_output"]
        done = sum(output["call_id"].startswith("tool") for output in outputs)
        call = {"type": "function_call", "id": f"f{len(outputs)}"}
        space = next((t["name"] for t in request["tools"] if _has_tools_of_sm(t)), None)
        if space is None:
            wait = {"name": "exec_command", "arguments": json.dumps({"cmd": "sleep 0.2"})}
            return {**call, **wait, "call_id": f"wait{len(outputs)}"}
        if done == len(STEPS):
            text = {"type": "output_text", "text": "that was all"}
            return {"type": "message", "role": "assistant", "id": "m", "content": [text]}
        name, arguments = STEPS[done]
        tool = {"namespace": space, "name": name, "arguments": json.dumps(arguments)}
        return {**call, **tool, "call_id": f"tool{done}"}

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _has_tools_of_sm(tool: dict[str, Any]) -> bool:
    return any(inner.get("name") == "create_session" for inner in tool.get("tools", ()))


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_codex_starts_a_child_waits_for_its_question_and_completes(instance: Instance, port: int) -> None:
    home, out = instance.home / "codex", instance.work / "out"
    home.mkdir()
    (home / "config.toml").write_text(PROVIDER % port + instance.sm("mcp", "--print-config", "codex"))
    # The shell stays the leader of the kernel session: codex 0.169 ends with SIGHUP where it is the leader itself.
    command = f"CODEX_HOME={home} {shlex.quote(CODEX)} exec {OPTIONS} 'Lead.' >{out} 2>&1 </dev/null; exit"
    session = instance.spawn("Sh", command, "--working-dir", str(instance.work))["session_id"]
    assert instance.ended(session)["completion_message"] == "done", out.read_text()
    events = [json.loads(line) for line in out.read_text().splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    results = {i["tool"]: i["result"]["structured_content"] for i in items if i["type"] == "mcp_tool_call"}
    assert results["create_session"]["parent_session_id"] == session
    waited = results["wait_for_sessions"]
    assert (waited["why"], waited["requests"][0]["questions"][0]["question"]) == ("request", "which colour?")
