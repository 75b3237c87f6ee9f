"""`sm mcp` in a real session with a real daemon, which is killed while calls are in flight."""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from sm.cli.mcp.link import REPORT_AWAY_S
from sm.wire import BODY_MAX_BYTES
from tests.cli.mcp.client import request
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.session_pump import COMMAND, SessionPump
from tests.load import scaled

KILLS = 10
ROUNDS, PER_ROUND = (10, 20) if os.environ.get("SM_LONG") == "1" else (4, 4)
"""SM_LONG=1: 200 creates and 200 sends."""
CONNECTOR = Path(__file__).with_name("pump_connector.py")
CONFIG = f"""{COMMAND}
  Child: {{command: [sh, -c, "sm note ready && exec sleep 1000"], prompt: file}}
  Asker: {{command: [sh, -c, "until [ -e asked ]; do sleep 0.05; done; exec sm ask colour --wait 600"], prompt: file}}
limits: {{spawn_interval_s: 0, max_children: 300, max_per_workspace: 300, messages_per_minute: 100000}}
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


def test_create_session_makes_one_child_when_the_daemon_is_killed_at_any_time(
    instance: Instance, pump: SessionPump
) -> None:
    created = []
    for number in range(KILLS):
        task = {"title": f"Part {number}", "agent_name": "Child", "initial_message": "x"}
        call = pump.start("create_session", **task)
        time.sleep(0.004 * number)  # another moment of the call each time
        instance.kill_daemon()
        instance.start_daemon()
        created.append(pump.result(call)["session_id"])
    children = instance.json("children", pump.session)
    assert sorted(child["session_id"] for child in children) == sorted(created)
    assert sorted(child["title"] for child in children) == [f"Part {number}" for number in range(KILLS)]


@pytest.mark.timeout(600)
def test_many_calls_in_flight_are_carried_out_once_when_the_daemon_is_killed(
    instance: Instance, pump: SessionPump
) -> None:
    recipient = instance.spawn("Child", "x", "--working-dir", str(instance.work))["session_id"]
    created, sent = list[str](), list[int]()
    for killed in range(ROUNDS):
        calls = dict[int, str]()
        for number in range(killed * PER_ROUND, (killed + 1) * PER_ROUND):
            task = {"title": f"Part {number}", "agent_name": "Sleeper", "initial_message": "x"}
            calls[pump.start("create_session", **task)] = "session_id"
            message = {"session_id": recipient, "message": f"message {number}", "wait_s": 0}
            calls[pump.start("send_message", **message)] = "message_id"
        answers = [
            pump.read() for _ in range(2 * killed % len(calls))
        ]  # another moment of the calls each time
        instance.kill_daemon()
        instance.start_daemon()
        answers += [pump.read() for _ in range(len(calls) - len(answers))]
        assert {answer["id"] for answer in answers} == set(calls)
        for answer in answers:
            shown, name = answer["result"]["structuredContent"], calls[answer["id"]]
            (created if name == "session_id" else sent).append(shown[name])
    total = ROUNDS * PER_ROUND
    children = instance.json("children", pump.session)
    assert sorted(child["session_id"] for child in children) == sorted(created)
    assert sorted(child["title"] for child in children) == sorted(f"Part {number}" for number in range(total))
    messages = instance.json("log", recipient, "--limit", "1000")
    assert sorted(message["message_id"] for message in messages) == sorted(sent)
    assert sorted(m["text"] for m in messages) == sorted(f"message {number}" for number in range(total))


def test_held_wait_goes_on_when_the_daemon_is_killed(instance: Instance, pump: SessionPump) -> None:
    child = pump.call("create_session", title="x", agent_name="Child", initial_message="x")["session_id"]
    call = pump.start("wait_for_sessions", session_ids=[child], timeout_s=3600)
    instance.in_status(pump.session, "idle")  # a session without turns is idle while a wait of it is held
    instance.kill_daemon()
    instance.start_daemon()
    instance.sm("kill", child)
    assert pump.result(call)["why"] == "reached"


def test_question_is_told_once_by_a_wait_that_a_killed_daemon_has_interrupted(
    instance: Instance, pump: SessionPump
) -> None:
    pump.call(
        "create_session", title="x", agent_name="Asker", initial_message="x", working_dir=str(instance.work)
    )
    call = pump.start("wait_for_sessions", timeout_s=3600)
    instance.in_status(pump.session, "idle")
    instance.kill_daemon()
    instance.start_daemon()
    (instance.work / "asked").touch()
    told = pump.result(call)
    assert (told["why"], told["requests"][0]["questions"]) == ("request", [{"question": "colour"}])
    assert instance.json("inbox", env=instance.as_session(pump.session)) == []


@pytest.mark.parametrize("is_back", [True, False], ids=["in time", "too late"])
def test_report_is_made_once_when_the_daemon_is_away(
    instance: Instance, pump: SessionPump, is_back: bool
) -> None:
    killed_s = time.monotonic()
    instance.kill_daemon()
    call = pump.start("report_checkpoint", message="half (1/2 tasks)")
    spool = instance.state / "spool" / pump.session
    until(lambda: any(file.name[0] != "." for file in spool.iterdir()), "the report to be in the spool")
    if is_back:
        instance.start_daemon()
        away_s = time.monotonic() - killed_s
        told = pump.result(call)
        # A busy machine may start the daemon too late: the pump tries once a second, and for a limited time.
        assert "timestamp" in told or away_s > REPORT_AWAY_S - 1
    else:
        assert "recorded" in pump.result(call)["warnings"][0]
        instance.start_daemon()
    until(lambda: not [*spool.iterdir()], "the spool to be empty")
    assert [point["message"] for point in instance.json("checkpoints", pump.session)] == ["half (1/2 tasks)"]


def test_call_with_a_void_token_is_refused(steady: Instance) -> None:
    session = SessionPump(steady).session
    token = steady.work / "void.token"
    token.write_bytes((steady.launch_dir / f"{session}.token").read_bytes())
    variables = {"SM_SESSION_ID": session, "SM_TOKEN_FILE": str(token)}
    call = json.dumps(request("tools/call", 1, {"name": "get_progress", "_meta": ENVELOPE}))

    def called() -> Any:
        return json.loads(steady.sm("mcp", env=variables, stdin=f"{call}\n"))["result"]["structuredContent"]

    assert called()["session_id"] == session
    steady.sm("kill", session)
    steady.sm("restore", session)  # the new process has another token
    shown = called()
    assert shown.get("error", {}).get("code") == "not_permitted", shown


def test_held_call_of_a_pump_ends_when_its_session_is_killed(steady: Instance) -> None:
    session = SessionPump(steady).session
    child = steady.spawn("Child", "x", "--parent", session)["session_id"]
    arguments = {"session_ids": [child], "timeout_s": 3600}
    call = request("tools/call", 1, {"name": "wait_for_sessions", "arguments": arguments, "_meta": ENVELOPE})
    with subprocess.Popen(
        [*steady.command, "mcp"],
        env={**steady.env, **steady.as_session(session)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as pump:
        assert pump.stdin is not None and pump.stdout is not None
        pump.stdin.write(json.dumps(call).encode() + b"\n")
        pump.stdin.flush()
        steady.in_status(session, "idle")
        steady.sm("kill", session)
        # The pump is a process of the session, so the kill may end it before the answer.
        if line := pump.stdout.readline():
            assert json.loads(line)["result"]["structuredContent"]["error"]["code"] == "illegal_state"
        pump.stdin.close()
        pump.wait(scaled(30))


def test_second_pump_of_a_session_is_the_same_session(steady: Instance) -> None:
    pump = SessionPump(steady)
    pump.connect()
    child = pump.call("create_session", title="x", agent_name="Child", initial_message="x")
    assert child["parent_session_id"] == pump.session


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % (b"x" * 1_001), -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b%b}' % (b'{"a":' * 101, b"1" + b"}" * 101), -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"%b"}}' % (b"x" * BODY_MAX_BYTES), -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no such tool"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such/method"}', -32601),
    ],
    ids=[
        "garbage", "batch", "null id", "float id", "long id", "version", "deep", "half a character", "large",
        "unknown tool", "unknown method",
    ],
)  # fmt: skip
def test_wrong_message_gets_an_error_and_the_next_one_an_answer(
    bad: SessionPump, line: bytes, code: int
) -> None:
    bad.write(line)
    assert bad.read()["error"]["code"] == code
    bad.send(request("ping", "after"))
    assert bad.read() == {"jsonrpc": "2.0", "id": "after", "result": {}}


@pytest.fixture(scope="module")
def bad(steady: Instance) -> SessionPump:
    """One pump for every wrong message."""
    return SessionPump(steady)


def test_restarted_daemon_serves_other_tools_to_the_same_pump(instance: Instance, pump: SessionPump) -> None:
    def names() -> list[str]:
        pump.send(request("tools/list", "list"))
        return [tool["name"] for tool in pump.read()["result"]["tools"]]

    before = names()
    child = pump.call("create_session", title="x", agent_name="Child", initial_message="x")["session_id"]
    call = pump.start("wait_for_sessions", session_ids=[child], timeout_s=3600)
    instance.in_status(pump.session, "idle")
    with instance.config.open("a") as file:
        file.write("mcp: {tools: [get_progress, wait_for_sessions]}\n")
    instance.restart_daemon()
    instance.sm("kill", child)
    assert pump.result(call)["why"] == "reached"
    assert names() == [name for name in before if name in ("get_progress", "wait_for_sessions")]


def test_daemon_does_not_grow_when_nobody_reads_the_answers(steady: Instance) -> None:
    pump = SessionPump(steady)
    pump.call("get_progress")
    before = _memory(steady.daemon_pid)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(scaled(60))
        client.connect(str(pump.path))
        poll = select.poll()
        poll.register(client, select.POLLOUT)
        sent = 0
        while poll.poll(1000 * scaled(1)):  # until the pump has taken nothing for a while
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
