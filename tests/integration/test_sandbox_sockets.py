"""The agent socket of a real container: nobody inside can remove it, and only tokens of its workspace count."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.api.sockets import AGENT_SOCKET_LIMITS
from sm.paths import InstancePaths
from tests.instance import Instance, until
from tests.integration.session_pump import HOST, SessionPump
from tests.integration.test_sandbox import OWNER, open_instance, read_later

ATTACK = """
rm -f /run/sm/socket/s; echo "rm $?"
mv /run/sm/socket/s /tmp/s; echo "mv $?"
ln -sf /tmp/other /run/sm/socket/s; echo "ln $?"
touch /run/sm/socket/other; echo "touch $?"
sm me --json >/dev/null; echo "own $?"
SM_TOKEN_FILE=$PWD/foreign sm me >/dev/null; echo "foreign $?"
echo done
"""


@pytest.fixture(scope="module")
def instance(engine: str, sandbox_image: str) -> Iterator[Instance]:
    instance = open_instance(engine, sandbox_image)
    bank = instance.home / "bank"
    bank.mkdir()
    os.chown(bank, OWNER, OWNER)
    instance.sm("workspace", "create", "bank", "--working-dir", str(bank))
    yield instance
    instance.end()


def test_socket_cannot_be_replaced_and_refuses_the_token_of_another_workspace(instance: Instance) -> None:
    banker = instance.spawn("Sleeper", "x", "--workspace", "bank")["session_id"]
    launch = InstancePaths(str(instance.config), str(instance.state)).sandbox("bank").launch
    foreign = instance.work / "foreign"
    foreign.write_bytes(Path(launch, f"{banker}.token").read_bytes())
    os.chown(foreign, OWNER, OWNER)
    instance.spawn("Sh", f"({ATTACK}) >out.txt 2>/dev/null; sleep 1000", "--workspace", "shop")
    told = dict(line.split() for line in read_later(instance.work / "out.txt", "done").splitlines()[:-1])
    assert told.pop("own") == "0"
    assert told.pop("foreign") == "5"
    assert "0" not in told.values(), told


def test_agent_reaches_a_new_socket_when_the_daemon_restarts(instance: Instance) -> None:
    script = (
        "until [ -e go ]; do sleep 0.1; done; sm note again >note.txt 2>&1; echo $? >>note.txt; sleep 1000"
    )
    session = instance.spawn("Sh", script, "--workspace", "shop")
    instance.sm("daemon", "restart")
    (instance.work / "go").touch()
    assert read_later(instance.work / "note.txt", "recorded\n0\n")
    assert instance.session(session["session_id"])["note"] == "again"


class ContainedPump(SessionPump):
    """An MCP client of a session in a container."""

    def _spawn(self, instance: Instance, directory: Path) -> str:
        shutil.copy(HOST, directory)
        for path in (directory, directory / HOST.name):
            os.chown(path, OWNER, OWNER)
        script = f"cd {directory} && exec python3 {HOST.name}"
        session: str = instance.spawn("Sh", script, "--workspace", "shop")["session_id"]
        return session


def test_sm_mcp_serves_a_container_while_the_daemon_is_killed(instance: Instance) -> None:
    pump = ContainedPump(instance)
    child = pump.call("create_session", title="x", agent_name="Sleeper", initial_message="x")
    assert (child["parent_session_id"], child["trust_level"]) == (pump.session, "sandboxed")
    call = pump.start("wait_for_sessions", session_ids=[child["session_id"]], timeout_s=3600)
    instance.in_status(pump.session, "idle")  # a session without turns is idle while a wait of it is held
    instance.kill_daemon()
    instance.start_daemon()
    instance.sm("kill", child["session_id"])
    assert pump.result(call)["why"] == "reached"


def test_tools_in_a_container_show_and_reach_no_direct_session(instance: Instance) -> None:
    direct = instance.spawn("Sleeper", "x", "--workspace", "shop", "--trust", "direct")["session_id"]
    pump = ContainedPump(instance)
    child = pump.call("create_session", title="x", agent_name="Sleeper", initial_message="x")
    assert (child["workspace_id"], child["trust_level"]) == ("shop", "sandboxed")
    listed = {session["session_id"] for session in pump.call("list_workspace_sessions")["sessions"]}
    assert {pump.session, child["session_id"]} <= listed
    assert direct not in listed
    told, hint = set(), "list sessions: sm all [tool list_workspace_sessions]"
    for reference in (direct, "0bad0bad"):
        pump.start("send_message", session_id=reference, message="x")
        error = pump.read()["result"]["structuredContent"]["error"]
        if near := re.fullmatch(r"did you mean (\w+)\?", error["hint"]):  # by chance, as ids are random
            assert near[1] in listed
            del error["hint"]
        told.add((error["code"], error["message"].replace(reference, "ID"), error.get("hint", hint)))
    assert told == {("not_found", "no such session: ID", hint)}


def test_sm_mcp_spools_a_report_in_a_container(instance: Instance) -> None:
    pump = ContainedPump(instance)
    instance.kill_daemon()
    assert "recorded" in pump.call("report_checkpoint", message="half")["warnings"][0]
    instance.start_daemon()
    until(lambda: instance.get(f"/v1/sessions/{pump.session}/checkpoints"), "the report")
    assert [point["message"] for point in instance.get(f"/v1/sessions/{pump.session}/checkpoints")] == [
        "half"
    ]


def test_agent_socket_serves_more_pumps_than_it_has_connections(instance: Instance) -> None:
    pump = ContainedPump(instance)
    streams = []
    for _ in range(AGENT_SOCKET_LIMITS.connections or 0):
        streams.append(pump.stream)
        pump.connect()
    for stream in (*streams, pump.stream):
        pump.stream = stream
        pump.call("list_agent_types")
