"""Crashes of the daemon at any step of the start, kill and restore of a sandboxed session."""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client, DaemonAway
from tests.instance import Instance
from tests.integration.test_sandbox import (
    all_containers,
    containers_of,
    docker,
    open_instance,
    processes_of,
)
from tests.waits import until

# Before and after each step, in the order of a spawn whose container does not exist yet.
POINTS = [
    f"{place} {when} {number}"
    for place, number in (
        ("ContainerSandbox.prepare", 1),
        ("Containers.ensure", 1),
        ("Engine.call", 3),
        ("Engine.call", 4),
        ("Engine.call", 5),
        ("ContainerMaker._make", 1),
        ("ContainerMaker._start", 1),  # before: made, but not started; after: its daemon does not know it
        ("Containers._bring_up", 1),
        ("Store.transaction", 1),  # the session, its event and its start effect
        ("AgentSockets.ready_for", 1),
        ("HomeFiles.ready_for", 1),
        ("Tmux.open", 1),
        ("PaneCreator._start_agent", 1),
        ("AgentStarts.record_launch", 1),
        ("ContainerSandbox.wait_started", 1),
        ("AgentStarts.record_start", 1),
        ("Spawner.spawn", 1),  # after: only the response is lost
    )
    for when in ("before", "after")
]


CHOSEN = frozenset(
    [
        "ContainerMaker._start before 1",
        "Store.transaction after 1",
        "PaneCreator._start_agent after 1",
        "ContainerSandbox.wait_started after 1",
    ]
)
"""The steps of `./check`: without a container, without a terminal, before and after the agent is known. The others run
in `./check --full`. tests/played/test_sandbox_crashes.py plays many more."""


def every(points: list[str]) -> list[Any]:
    return [pytest.param(point, marks=[] if point in CHOSEN else pytest.mark.full) for point in points]


RESTORE_POINTS = [
    f"{place} {when} 1"
    for place in (
        "ContainerSandbox.end",
        "ContainerSandbox.prepare",
        "AgentSockets.ready_for",
        "Tmux.open",
        "ContainerSandbox.wait_started",
        "AgentStarts.record_start",
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
    for container in all_containers(engine, stage).values():
        docker(engine, "rm", "-f", container)


def starts(path: Path) -> int:
    """The number of agents of a spawn that have written a line to the file."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def agent(instance: Instance, session_id: str) -> dict[str, Any]:
    """The session, which has one agent and no other process."""
    session = instance.session(session_id)
    assert session["status"] == "running", session["status_reason"]
    assert processes_of(session_id) == [session["pid"]]
    return session


@pytest.mark.parametrize("point", every(POINTS))
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


def test_first_session_without_a_workspace_survives_a_crash_after_its_container_was_made(
    crash: Instance, engine: str
) -> None:
    daemon = crash.start_daemon("ContainerMaker._start before 1")
    session = crash.spawn("Sleeper", "x", "--trust", "sandboxed", cwd=crash.home)["session_id"]
    daemon.wait()
    agent(crash, session)
    [name] = all_containers(engine, crash)
    assert name.endswith("-default")


@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_ends_the_agent_when_the_daemon_crashes(crash: Instance, when: str) -> None:
    daemon = crash.start_daemon(f"ContainerSandbox.end {when} 1")
    # Before: the next daemon waits the whole grace time. After: nothing is left to wait for.
    trap = "trap '' TERM HUP; " if when == "before" else ""
    script = f"{trap}(setsid sleep 1001 &); sleep 1002"
    killed = crash.spawn("Sh", script, "--workspace", "shop")["session_id"]
    other = crash.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
    crash.sm("kill", killed)
    daemon.wait()
    assert crash.ended(killed)["status"] == "killed"
    assert processes_of(killed) == []
    agent(crash, other)


@pytest.mark.parametrize("point", every(RESTORE_POINTS))
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


ROUNDS = 60 if os.environ.get("SM_LONG") == "1" else 4


@pytest.mark.full
def test_spawn_starts_one_agent_when_the_daemon_is_killed_at_random(crash: Instance, engine: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # shown when it fails, to run it again
    rng = random.Random(seed)
    ids = []
    outcomes: Counter[str] = Counter()
    daemon = crash.start_daemon()
    with ThreadPoolExecutor(1) as pool:
        for number in range(ROUNDS):
            future = pool.submit(request, crash, number)
            # No synchronization: any moment will do. The first spawn makes the container, which takes longer.
            time.sleep(rng.uniform(0, 0.2 if number % 3 else 0.8))
            daemon.kill()
            try:
                outcomes["answered"] += bool(future.result())
            except DaemonAway:
                outcomes["interrupted"] += 1
            daemon = crash.start_daemon()
            ids.append(request(crash, number))
            if number % 3 == 2:  # the next spawn makes the container again
                for session_id in ids[-3:]:
                    crash.sm("kill", session_id, "--force")
                crash.sm("sandbox", "rm", "shop")
    print(dict(outcomes))  # noqa: T201  # how many requests were interrupted
    assert len(set(ids)) == ROUNDS
    for number, session_id in enumerate(ids):
        until(lambda number=number: starts(crash.work / f"random-{number}"), "the agent runs")  # type: ignore[misc]  # a default binds the loop's value
        assert starts(crash.work / f"random-{number}") == 1, f"spawn {number} of seed {seed}"
        if number >= ROUNDS - ROUNDS % 3:
            agent(crash, session_id)
        else:
            assert processes_of(session_id) == []
    told = Counter((event["session_id"], event["type"]) for event in crash.events())
    assert {told[session_id, kind] for session_id in ids for kind in ("spawned", "started")} == {1}
    assert len(containers_of(engine, crash)) == (1 if ROUNDS % 3 else 0)


def request(instance: Instance, number: int) -> str:
    """Spawn by an HTTP request that the client does not retry. The same number is the same spawn."""
    body = {
        "agent_type": "Sh",
        "prompt": f"echo x >> random-{number}; exec sleep 1000",
        "workspace": "shop",
        "cwd": str(instance.work),
        "environment": dict(instance.env),
    }
    return str(Client(str(instance.socket)).post("/v1/sessions", body, key=f"random-{number}")["session_id"])
