"""Crashes of the daemon at any step of the start, kill and restore of a sandboxed session."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Instance
from tests.integration.test_sandbox import containers_of, open_instance, processes_of
from tests.load import until

# Before and after each step, in the order of a spawn whose container does not exist yet.
POINTS = [
    f"{place} {when} {number}"
    for place, number in (
        ("ContainerSandbox.prepare", 1),
        ("Containers.ensure", 1),
        ("Engine.call", 3),
        ("Engine.call", 4),
        ("Engine.call", 5),
        ("Store.transaction", 1),  # the session, its event and its start effect
        ("AgentSockets.ready_for", 1),
        ("HomeFiles.ready_for", 1),
        ("Tmux.open", 1),
        ("PaneCreator._start_agent", 1),
        ("Spawner.record_launch", 1),
        ("ContainerSandbox.wait_started", 1),
        ("Spawner.record_start", 1),
        ("Spawner.spawn", 1),  # after: only the response is lost
    )
    for when in ("before", "after")
]


RESTORE_POINTS = [
    f"{place} {when} 1"
    for place in (
        "ContainerSandbox.end",
        "ContainerSandbox.prepare",
        "AgentSockets.ready_for",
        "Tmux.open",
        "ContainerSandbox.wait_started",
        "Spawner.record_start",
    )
    for when in ("before", "after")
]


@pytest.fixture(scope="module")
def stage(engine: str, sandbox_image: str) -> Iterator[Instance]:
    instance = open_instance(engine, sandbox_image)
    instance.kill_daemon()
    yield instance
    instance.end()


@pytest.fixture
def crash(stage: Instance, engine: str) -> Iterator[Instance]:
    """The instance without a daemon, a container or a live session."""
    yield stage
    for session in stage.json("all"):
        if session["status"] not in ("killed", "error", "completed", "abandoned"):
            stage.sm("kill", session["session_id"], "--force")
    stage.kill_daemon()
    for container in containers_of(engine, stage):
        subprocess.run(["docker", "-H", engine, "rm", "-f", container], check=True, capture_output=True)


def starts(path: Path) -> int:
    """The number of agents of a spawn that have written a line to the file."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def agent(instance: Instance, session_id: str) -> dict[str, Any]:
    """The session, which has one agent and no other process."""
    session = instance.session(session_id)
    assert session["status"] == "running", session["status_reason"]
    assert processes_of(session_id) == [session["pid"]]
    return session


@pytest.mark.parametrize("point", POINTS)
def test_spawn_starts_one_agent_in_one_container_when_the_daemon_crashes_at_any_step(
    crash: Instance, engine: str, point: str
) -> None:
    daemon = crash.start_daemon(point)
    name = point.replace(" ", "-").replace("_", "").replace(".", "-").lower()
    started = crash.work / name
    script = f"echo x >> {name}; exec sleep 1000"
    session = crash.spawn("Sh", script, "--workspace", "shop", "--name", name)["session_id"]
    daemon.wait()  # the daemon died, and `sm spawn` started another one and retried
    until(lambda: starts(started), "the agent runs")
    agent(crash, session)
    assert starts(started) == 1
    assert len(containers_of(engine, crash)) == 1
    assert [event["type"] for event in crash.events(session)] == ["spawned", "started"]
    assert [s["friendly_name"] for s in crash.json("all")].count(f"sh-{name}") == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_ends_the_agent_when_the_daemon_crashes(crash: Instance, when: str) -> None:
    daemon = crash.start_daemon(f"ContainerSandbox.end {when} 1")
    script = "trap '' TERM HUP; (setsid sleep 1001 &); sleep 1002"
    killed = crash.spawn("Sh", script, "--workspace", "shop")["session_id"]
    other = crash.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
    crash.sm("kill", killed)
    daemon.wait()
    assert crash.ended(killed)["status"] == "killed"
    assert processes_of(killed) == []
    agent(crash, other)


@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_restore_starts_one_agent_when_the_daemon_crashes_at_any_step(
    crash: Instance, engine: str, point: str
) -> None:
    name = f"restored-{point}".replace(" ", "-")
    started = crash.work / name
    crash.start_daemon()
    script = f"echo x >> {name}; exec sleep 1000"
    session = crash.spawn("Sh", script, "--workspace", "shop")["session_id"]
    until(lambda: starts(started) == 1, "the agent runs")
    crash.sm("kill", session, "--force")
    crash.kill_daemon()
    daemon = crash.start_daemon(point)
    crash.sm("restore", session)
    daemon.wait()
    until(lambda: starts(started) == 2, "the agent runs again")
    until(lambda: crash.session(session)["status"] == "running", "the session runs")
    agent(crash, session)
    assert starts(started) == 2
    assert len(containers_of(engine, crash)) == 1
