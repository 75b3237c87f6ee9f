"""The process `sm mcp` in a real session with a real daemon: a kill, a deaf client, and the client of the SDK."""

import json
import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.cli.mcp.client import request
from tests.fixtures import context_fixture
from tests.instance import Instance
from tests.integration.session_pump import COMMAND, SessionPump

CONNECTOR = Path(__file__).with_name("pump_connector.py")
CONFIG = f"""{COMMAND}
  Child: {{command: [sh, -c, "sm note ready && exec sleep 1000"], prompt: file}}
limits: {{spawn_interval_s: 0}}
"""
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

instance = context_fixture("function", Instance, CONFIG)
steady = context_fixture("module", Instance, CONFIG)


@pytest.fixture
def pump(instance: Instance) -> SessionPump:
    return SessionPump(instance)


def test_held_wait_goes_on_when_the_daemon_is_killed(instance: Instance, pump: SessionPump) -> None:
    child = pump.call("create_session", title="x", agent_name="Child", initial_message="x")["session_id"]
    call = pump.start("wait_for_sessions", session_ids=[child], timeout_s=3600)
    instance.in_status(pump.session, "idle")  # a session without turns is idle while a wait of it is held
    instance.kill_daemon()
    instance.start_daemon()
    instance.sm("kill", child)
    assert pump.result(call)["why"] == "reached"


def test_daemon_does_not_grow_when_nobody_reads_the_answers(steady: Instance) -> None:
    pump = SessionPump(steady)
    pump.call("get_progress")
    before = _memory(steady.daemon_pid)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(None)
        client.connect(str(pump.path))
        poll = select.poll()
        poll.register(client, select.POLLOUT)
        sent = 0
        while poll.poll(3000):  # until the pump has taken nothing for a while
            sent += 1
            client.sendall(json.dumps(request("tools/list", sent, {"_meta": ENVELOPE})).encode() + b"\n")
        assert sent > 64
        assert _memory(steady.daemon_pid) - before < 30_000_000
        with client.makefile("rb") as answers:
            kinds = {_kind(json.loads(answers.readline())) for _ in range(sent)}
        assert kinds == {"result", -32000}, "requests beyond the limit of the pump are refused"
    assert pump.call("get_progress")["session_id"] == pump.session


def _kind(answer: dict[str, Any]) -> object:
    return "result" if "result" in answer else answer["error"]["code"]


def _memory(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_client_of_the_sdk_speaks_with_the_pump_of_a_session(steady: Instance, mode: str) -> None:
    pump = SessionPump(steady)
    server = StdioServerParameters(command=sys.executable, args=[str(CONNECTOR), str(pump.path)])
    async with Client(stdio_client(server), mode=mode) as client:
        assert "report_note" in [tool.name for tool in (await client.list_tools()).tools]
        task = {"title": "x", "agent_name": "Child", "initial_message": "x"}
        child = (await client.call_tool("create_session", task)).structured_content
        assert child is not None and child["parent_session_id"] == pump.session
        waited = await client.call_tool(
            "wait_for_sessions", {"session_ids": [child["session_id"]], "timeout_s": 1}
        )
        assert waited.structured_content is not None and waited.structured_content["why"] == "timeout"
