"""An engine whose sandbox is wanting: a spawn without a workspace and without a level never runs on this host."""

import asyncio
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.earlier_boot import set_earlier_boot
from tests.sim.engine import IMAGE
from tests.sim.programs import Running
from tests.sim.sandbox_stage import SandboxInstance, open_instance, processes_of
from tests.sim.stage import until

WAY_OUT = "to run it on this host: add --trust direct"


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    instance = open_instance(", memory: 512m, memory_reservation: 128m, pids: 128")
    yield instance
    instance.end()


def spawn(instance: SandboxInstance, script: str) -> str:
    """Start a session in the container of sessions without a workspace; nobody asks for a level."""
    session = instance.spawn("Sh", script, cwd=instance.home)
    assert (session["trust_level"], session["effective_mode"]) == ("sandboxed", "sandboxed")
    return str(session["session_id"])


def refuse(
    instance: SandboxInstance, reason: str, *options: str, exit_code: int = 9, hint: str = WAY_OUT
) -> None:
    """Assert that a spawn is refused for the reason, and that its program ran nowhere."""
    before = len(instance.json("all"))
    script = f"touch {instance.home}/ran; exec sleep 1000"
    refused = instance.refused("spawn", "Sh", script, *options, exit_code=exit_code, cwd=instance.home)
    assert reason in refused and hint in refused
    sessions = instance.json("all")
    assert len(sessions) == before
    assert [s for s in sessions if s["effective_mode"] == "direct"] == []
    assert not (instance.home / "ran").exists()


def test_agent_that_ends_its_container_three_times_does_not_move_the_next_one_to_this_host(
    instance: SandboxInstance,
) -> None:
    for number in range(1, 4):
        agent = spawn(instance, "sleep 0.2; kill 1; exec sleep 1000")
        ended = instance.ended(agent)
        assert ended["status"] == "error"
        assert ended["status_reason"] == "the container ended, and the agent with it", number
        assert processes_of(agent) == []
    reason = "the container for sessions without a workspace ended 3 times within 5 minutes"
    until(lambda: reason in instance.sm("sandbox", "status"), "the daemon has seen the third end")
    refuse(instance, f"{reason}, and is not started again", hint="sm sandbox rm default --force")
    refuse(instance, reason)
    refuse(instance, reason, "--trust", "sandboxed", hint="sm sandbox logs")
    for agent in (
        s["session_id"] for s in instance.json("all")
    ):  # none of them is restored on this host either
        assert reason in instance.refused("restore", agent, exit_code=9)
    assert instance.json("spawn", "Sleeper", "x", "--workspace", "shop")["effective_mode"] == "sandboxed"
    instance.sm("sandbox", "rm", "default", "--force")
    spawn(instance, "exec sleep 1000")


def reboot(instance: SandboxInstance) -> None:
    instance.kill_daemon()
    instance.world.server.kill()
    set_earlier_boot(instance.state)
    instance.run("daemon", "start")


async def crowd(program: Running) -> None:
    """Start as many processes as a small container has room for."""
    kernel = program.kernel
    for _ in range(70):
        kernel.start(("sleep", "1000"), program.environ, "/", parent=program.process.pid)
    await asyncio.sleep(1000)


def test_full_container_does_not_move_the_next_agent_to_this_host(instance: SandboxInstance) -> None:
    instance.world.programs.installed["crowd"] = crowd
    full = spawn(instance, "exec crowd")
    until(lambda: len(processes_of(full)) > 70, "the container is full")
    refuse(instance, "sandbox busy", exit_code=6, hint="of 128 processes")


def test_foreign_container_does_not_move_the_next_agent_to_this_host(
    instance: SandboxInstance,
) -> None:
    instance.sm("kill", spawn(instance, "exec sleep 1000"))
    [own] = instance.containers
    instance.sm("sandbox", "rm", "default", "--force")
    foreign = instance.engine.run_foreign(own.name)
    before = len(instance.json("all"))
    script = f"touch {instance.home}/ran; exec sleep 1000"
    refused = instance.refused("spawn", "Sh", script, exit_code=9, cwd=instance.home)
    assert f"the name {own.name} is taken by container {foreign.id[:12]}" in refused
    made = instance.json("all")[before:]
    assert [s for s in instance.json("all") if s["effective_mode"] == "direct"] == [], made
    assert not (instance.home / "ran").exists()
    assert foreign.is_running


def test_directory_that_cannot_be_mounted_does_not_move_the_agent_to_this_host(
    instance: SandboxInstance,
) -> None:
    moved = instance.home / "moved"
    shutil.move(instance.work, moved)
    os.symlink(moved, instance.work)
    refuse(instance, "cannot be mounted into a container", "--workspace", "shop")


def test_engine_that_hangs_or_has_lost_its_image_does_not_move_the_agent_to_this_host(
    instance: SandboxInstance,
) -> None:
    instance.sm("kill", spawn(instance, "exec sleep 1000"))
    instance.engine.hang()
    refuse(instance, "does not respond")
    instance.engine.resume()
    instance.sm("sandbox", "rm", "default", "--force")
    del instance.engine.images[IMAGE]
    refuse(instance, f"the engine has no image {IMAGE}", hint="sm sandbox build")
    refuse(instance, f"the engine has no image {IMAGE}")
    instance.restart_daemon()
    refuse(instance, f"the engine has no image {IMAGE}")


def test_instance_that_never_had_an_image_runs_the_agent_on_this_host_and_names_the_build() -> None:
    instance = open_instance(image="sm-sandbox-that-nobody-built")
    try:
        ended = instance.run("spawn", "Sleeper", "x", "--json", cwd=instance.home)
        assert ended.returncode == 0
        assert "sm sandbox build" in ended.stderr
        [session] = instance.json("all")
        assert (session["trust_level"], session["effective_mode"]) == ("sandboxed", "direct")
    finally:
        instance.end()


def test_team_that_fell_back_is_restored_after_a_reboot_only_while_there_is_no_sandbox() -> None:
    instance = open_instance(has_engine=False)
    try:
        lead = instance.spawn("Sleeper", "x", cwd=instance.home)["session_id"]
        child = instance.spawn("Sleeper", "x", "--parent", lead)["session_id"]
        keeper = instance.spawn("Sh", "exec sleep 1000", "--parent", lead, "--restart", "on-failure")[
            "session_id"
        ]
        team = (lead, child, keeper)
        fell_back = dict.fromkeys(team, ("sandboxed", "direct"))

        def levels() -> dict[str, tuple[str, str]]:
            sessions = [instance.session(s) for s in team]
            return {s["session_id"]: (s["trust_level"], s["effective_mode"]) for s in sessions}

        def warnings(session_id: str) -> list[str]:
            events = instance.events(session_id, "--type", "warning")
            words = [e["message"] for e in events if e["session_id"] == session_id]
            return [w.partition(" - ")[2] for w in words if "no sandbox: no Docker engine runs" in w]

        assert levels() == fell_back
        first = instance.session(keeper)["pid"]
        reboot(instance)
        assert "Restored" in instance.sm("restore", "--all")
        until(lambda: instance.session(keeper)["pid"] not in (None, first), "it runs again", 60)
        assert levels() == fell_back
        assert [instance.session(s)["status"] for s in team] == ["running"] * 3
        assert {s: len(warnings(s)) for s in team} == {lead: 2, child: 1, keeper: 1}
        assert len({w for s in team for w in warnings(s)}) == 1, "the same warning each time"

        reboot(instance)
        instance.engine.start()
        over = "there was no sandbox, and now there is one"
        refused = instance.run("restore", "--all")
        assert (refused.returncode, refused.stderr.count(over)) == (9, 2)
        assert over in instance.ended(keeper)["status_reason"]
        assert [(instance.session(s)["status"], processes_of(s)) for s in team] == [("error", [])] * 3
        assert levels() == fell_back
        assert over in instance.refused("restore", child, exit_code=9)
        for session_id in team:
            instance.sm("restore", session_id, "--trust", "direct")
        assert levels() == dict.fromkeys(team, ("direct", "direct"))
        assert [instance.session(s)["parent_session_id"] for s in team] == [None, lead, lead]
        assert instance.json("spawn", "Sleeper", "x", cwd=instance.home)["effective_mode"] == "sandboxed"
    finally:
        instance.end()
