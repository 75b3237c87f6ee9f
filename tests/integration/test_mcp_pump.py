"""`sm mcp` in a real session with a real daemon, which is killed while calls are in flight."""

import time

import pytest

from sm.wire import BODY_MAX_BYTES
from tests.cli.mcp.client import request
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.session_pump import COMMAND, SessionPump

KILLS = 10
CONFIG = f"""{COMMAND}
  Child: {{command: [sh, -c, "sm note ready && exec sleep 1000"], prompt: file}}
  Asker: {{command: [sh, -c, "until [ -e asked ]; do sleep 0.05; done; exec sm ask colour --wait 600"], prompt: file}}
limits: {{spawn_interval_s: 0, max_children: 100}}
"""


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
    instance.kill_daemon()
    call = pump.start("report_checkpoint", message="half (1/2 tasks)")
    spool = instance.state / "spool" / pump.session
    until(lambda: any(file.name[0] != "." for file in spool.iterdir()), "the report to be in the spool")
    if is_back:
        instance.start_daemon()
        assert "timestamp" in pump.result(call)
    else:
        assert "recorded" in pump.result(call)["warnings"][0]
        instance.start_daemon()
    until(lambda: not [*spool.iterdir()], "the spool to be empty")
    assert [point["message"] for point in instance.json("checkpoints", pump.session)] == ["half (1/2 tasks)"]


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
