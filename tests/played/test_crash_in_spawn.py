"""Crashes of the daemon at any step of a spawn: the retry of the client leaves exactly one agent."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.sim.counted_agents import CountedStage, agents_of, left_over, starts
from tests.sim.programs import Running
from tests.sim.stage import Instance, until

# Before and after each step, in the order of a spawn.
POINTS = [
    f"{place} {when} {number}"
    for place, number in (
        ("HostSandbox.prepare", 1),
        ("Store.transaction", 1),  # the session, its event and its start effect
        ("Transaction.effect", 1),  # inside that transaction
        ("Tmux.open", 1),
        ("AgentStarts.record_launch", 1),
        ("HostSandbox.wait_started", 1),
        ("AgentStarts.record_start", 1),
        ("Store.transaction", 3),
        ("Spawner.spawn", 1),  # after: only the response is lost
    )
    for when in ("before", "after")
]


READER = '  Reader: {command: [sh, -c, "while read -r x; do echo $x >> typed; done"], prompt: tty}\n'
_STEPS = 96
"""More steps than a spawn takes."""

instance = context_fixture("function", CountedStage, READER + "limits: {max_per_workspace: 10000}")


@pytest.mark.parametrize("point", POINTS)
def test_spawn_starts_exactly_one_agent_when_the_daemon_crashes_at_any_step(
    instance: Instance, point: str
) -> None:
    daemon = instance.start_crashing_daemon(point)
    session = instance.spawn("Counted", "agent", "--name", "one")
    daemon.wait()  # the daemon was dropped, and `sm spawn` started another one and retried
    until(lambda: starts(instance, "agent"), "the agent runs")
    assert starts(instance, "agent") == [session["pid"]]
    instance.settle()
    assert instance.session(session["session_id"])["status"] == "running"
    assert [e["type"] for e in instance.events(session["session_id"])] == ["spawned", "started"]
    (live,) = instance.json("all")
    assert live["friendly_name"] == "counted-one"
    assert agents_of(instance, {live["session_id"]}) == Counter({live["session_id"]: 1})
    assert left_over(instance, {live["session_id"]}) == []


async def reads_servers(program: Running) -> None:
    """Copy the file with its MCP servers."""
    servers = Path(program.argv[program.argv.index("--mcp-config") + 1])
    Path(program.process.cwd, "servers").write_text(servers.read_text())
    await asyncio.sleep(100_000)


@pytest.mark.parametrize(
    "point", ["Store.transaction after 1", "Tmux.open before 1", "AgentStarts.record_start before 1"]
)
def test_mcp_servers_survive_a_crash_during_spawn_and_stay_out_of_the_database(
    instance: Instance, point: str
) -> None:
    secret = "of-a-server-5f0c"
    server = {"command": "x", "env": {"KEY": secret}}
    (instance.home / ".claude.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    instance.world.programs.installed["reads-servers"] = reads_servers
    instance.config.write_text(f"{instance.config.read_text()}claude: {{default_command: [reads-servers]}}\n")
    daemon = instance.start_crashing_daemon(point)
    session_id = instance.spawn("general-purpose", "x", "--trust", "direct")["session_id"]
    daemon.wait()
    out = instance.work / "servers"
    until(out.exists, "the agent has read its servers")
    assert json.loads(out.read_text())["mcpServers"]["mine"]["env"]["KEY"] == secret
    assert not any(secret.encode() in path.read_bytes() for path in instance.state.glob("sm.db*"))
    instance.sm("kill", session_id, "--force")


@pytest.mark.parametrize(
    ("point", "typed"), [("Tmux.type_line before 1", ""), ("Tmux.type_line after 1", "hello\n")]
)
def test_prompt_is_not_typed_again_when_a_crash_interrupts_the_typing(
    instance: Instance, point: str, typed: str
) -> None:
    daemon = instance.start_crashing_daemon(point)
    session = instance.spawn("Reader", "hello")
    daemon.wait()
    until(lambda: instance.json("status")["dead_letters"] == 1, "a dead letter")
    (warning,) = (e["message"] for e in instance.events(session["session_id"], "--type", "warning"))
    assert "check the agent's terminal" in warning
    instance.type_line(instance.session(session["session_id"]), "end")  # a second prompt would come before it
    out = instance.work / "typed"
    until(lambda: out.exists() and out.read_text().endswith("end\n"), "the line is read")
    assert out.read_text() == f"{typed}end\n"


@pytest.mark.parametrize("quarter", range(4))
def test_spawn_starts_exactly_one_agent_when_the_daemon_is_dropped_between_any_two_steps(
    instance: Instance, quarter: int
) -> None:
    instance.sm("status")
    pids, ids = [instance.world.daemon.process.pid], list[str]()
    for step in range(_STEPS - 1 - quarter, -1, -4):
        instance.drop_after(step)
        ids.append(instance.spawn("Counted", f"agent-{len(ids)}")["session_id"])
        pids.append(instance.world.daemon.process.pid)
    assert pids[0] == pids[1], "the spawn takes fewer steps"
    assert len({*pids}) > len(ids) / 2, "most of the steps belong to the spawn"
    instance.sm("status")  # starts a daemon if the last one was dropped after its answer
    instance.settle()
    listed = {s["session_id"]: s for s in instance.json("all")}
    assert [listed[s]["status"] for s in ids] == ["running"] * len(ids)
    assert listed.keys() == set(ids)
    for number, session_id in enumerate(ids):
        assert starts(instance, f"agent-{number}") == [listed[session_id]["pid"]]
    assert agents_of(instance, set(ids)) == Counter(dict.fromkeys(ids, 1))
    events = Counter((e["session_id"], e["type"]) for e in instance.events())
    assert {events[s, t] for s in ids for t in ("spawned", "started")} == {1}
    assert left_over(instance, set(ids)) == []
