"""`sm mcp` in a session while the daemon is killed, restarted and away: each call is carried out once."""

import json
import os
from typing import Any

import pytest

from sm.wire import BODY_MAX_BYTES
from tests.cli.mcp.client import request
from tests.fixtures import context_fixture
from tests.sim.pump import PlayedPump, PlayedSessionPump, played_pumps
from tests.sim.stage import Instance, until

KILLS = 30
STEPS = 17
"""How many callbacks of the daemon are between two kills of the test of any time."""
ROUNDS, PER_ROUND = (10, 20) if os.environ.get("SM_LONG") == "1" else (6, 8)
"""SM_LONG=1: 200 creates and 200 sends."""
CONFIG = """
  Host: {command: [sleep, "1000000"], prompt: file}
  Child: {command: [sh, -c, "sm note ready; exec sleep 1000"], prompt: file}
  Asker: {command: [sh, -c, "until [ -e asked ]; do sleep 0.05; done; exec sm ask colour --wait 600"], prompt: file}
limits: {spawn_interval_s: 0, max_children: 300, max_per_workspace: 300, messages_per_minute: 100000}
"""
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

instance = context_fixture("function", Instance, CONFIG)


@pytest.fixture
def pump(instance: Instance) -> PlayedSessionPump:
    instance.enter(played_pumps(instance.loop))
    return PlayedSessionPump(instance)


def in_session(instance: Instance, session_id: str) -> PlayedPump:
    """Another process `sm mcp` of the session."""
    return PlayedPump(instance, instance.world.programs.running[session_id].process)


def test_process_of_sm_mcp_does_not_read_the_terminal_of_its_agent(
    instance: Instance, pump: PlayedSessionPump
) -> None:
    kernel = instance.world.kernel
    (mcp,) = [process for process in kernel.processes.values() if process.argv[:2] == ("sm", "mcp")]
    assert (mcp.parent, kernel.link(f"/proc/{mcp.pid}/fd/0")) == (
        instance.session(pump.session)["pid"],
        "/dev/null",
    )


def test_create_session_makes_one_child_when_the_daemon_is_killed_at_any_time(
    instance: Instance, pump: PlayedSessionPump
) -> None:
    created = []
    for number in range(KILLS):
        task = {"title": f"Part {number}", "agent_name": "Child", "initial_message": "x"}
        call = pump.start("create_session", **task)
        dropped = instance.world.drop_after(STEPS * number)  # another moment of the call each time
        until(dropped.done, "the daemon is killed")
        instance.start_daemon()
        created.append(pump.result(call)["session_id"])
    children = instance.json("children", pump.session)
    assert sorted(child["session_id"] for child in children) == sorted(created)
    assert sorted(child["title"] for child in children) == sorted(f"Part {number}" for number in range(KILLS))


def test_many_calls_in_flight_are_carried_out_once_when_the_daemon_is_killed(
    instance: Instance, pump: PlayedSessionPump
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
        dropped = instance.world.drop_after(8 * STEPS * (killed + 1))  # another moment of the calls each time
        until(dropped.done, "the daemon is killed")
        instance.start_daemon()
        answers = [pump.read() for _ in calls]
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


def test_question_is_told_once_by_a_wait_that_a_killed_daemon_has_interrupted(
    instance: Instance, pump: PlayedSessionPump
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
    instance: Instance, pump: PlayedSessionPump, is_back: bool
) -> None:
    instance.kill_daemon()
    call = pump.start("report_checkpoint", message="half (1/2 tasks)")
    spool = instance.state / "spool" / pump.session
    until(
        lambda: spool.exists() and any(file.name[0] != "." for file in spool.iterdir()),
        "the report to be in the spool",
    )
    if is_back:
        instance.start_daemon()
        assert "timestamp" in pump.result(call)
    else:
        assert "recorded" in pump.result(call)["warnings"][0]
        instance.start_daemon()
    until(lambda: not [*spool.iterdir()], "the spool to be empty")
    assert [point["message"] for point in instance.json("checkpoints", pump.session)] == ["half (1/2 tasks)"]


def test_call_with_a_void_token_is_refused(instance: Instance, pump: PlayedSessionPump) -> None:
    session = pump.session
    token = instance.work / "void.token"
    token.write_bytes((instance.launch_dir / f"{session}.token").read_bytes())

    def called() -> Any:
        shell = instance.world.shell
        variables = {**instance.env, "SM_SESSION_ID": session, "SM_TOKEN_FILE": str(token)}
        outside = instance.world.kernel.start(("sh",), variables, str(instance.work), parent=shell.pid)
        other = PlayedPump(instance, outside)
        other.send(request("tools/call", 1, {"name": "get_progress", "_meta": ENVELOPE}))
        return other.read()["result"]["structuredContent"]

    assert called()["session_id"] == session
    instance.sm("kill", session)
    instance.sm("restore", session)  # the new process has another token
    shown = called()
    assert shown.get("error", {}).get("code") == "not_permitted", shown


def test_held_call_of_a_pump_ends_when_its_session_is_killed(
    instance: Instance, pump: PlayedSessionPump
) -> None:
    child = instance.spawn("Child", "x", "--parent", pump.session)["session_id"]
    pump.start("wait_for_sessions", session_ids=[child], timeout_s=3600)
    instance.in_status(pump.session, "idle")
    instance.sm("kill", pump.session)
    # The pump is a process of the session, so the kill may end it before the answer.
    if line := pump.read_line():
        assert json.loads(line)["result"]["structuredContent"]["error"]["code"] == "illegal_state"


def test_second_pump_of_a_session_is_the_same_session(instance: Instance, pump: PlayedSessionPump) -> None:
    second = in_session(instance, pump.session)
    second.greet()
    child = second.call("create_session", title="x", agent_name="Child", initial_message="x")
    assert child["parent_session_id"] == pump.session


def test_call_with_half_a_character_is_answered_with_its_id(pump: PlayedSessionPump) -> None:
    pump.write(b'{"jsonrpc":"2.0","id":"half","method":"ping","params":{"a":"\\ud800"}}')
    assert pump.read() == {"jsonrpc": "2.0", "id": "half", "result": {}}


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
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"%b"}}' % (b"x" * BODY_MAX_BYTES), -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no such tool"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such/method"}', -32601),
    ],
    ids=[
        "garbage", "batch", "null id", "float id", "long id", "version", "deep", "large",
        "unknown tool", "unknown method",
    ],
)  # fmt: skip
def test_wrong_message_gets_an_error_and_the_next_one_an_answer(
    pump: PlayedSessionPump, line: bytes, code: int
) -> None:
    pump.write(line)
    assert pump.read()["error"]["code"] == code
    pump.send(request("ping", "after"))
    assert pump.read() == {"jsonrpc": "2.0", "id": "after", "result": {}}


def test_restarted_daemon_serves_other_tools_to_the_same_pump(
    instance: Instance, pump: PlayedSessionPump
) -> None:
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
