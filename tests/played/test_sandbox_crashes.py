"""Crashes of the daemon between any two steps of the start, kill and restore of a sandboxed session."""

from collections.abc import Iterator

import pytest

from tests.sim.sandbox_stage import SandboxInstance, open_instance, processes_of
from tests.sim.stage import until

PARTS = 4
CRASHES = 10
"""In each part of a test."""


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    with open_instance() as instance:
        yield instance


def crash_points(steps: int, part: int) -> range:
    """The numbers of steps after which one part of a test drops the daemon, of an act that takes `steps`."""
    stride = max(1, steps // (PARTS * CRASHES))
    return range(1 + part * stride, steps, PARTS * stride)


def runs_once(instance: SandboxInstance, session_id: str, starts: int = 1) -> None:
    """Assert that the session has one agent in one container, which was started that often."""
    session = until(lambda: instance.in_status(session_id, "running"), "the session runs")
    assert processes_of(session_id) == [session["pid"]]
    assert (instance.work / session_id).read_text() == "x\n" * starts
    assert len([c for c in instance.containers if c.is_running]) == len(instance.containers) == 1


def start(instance: SandboxInstance, name: str) -> str:
    script = "echo x >> $SM_SESSION_ID; exec sleep 100000"
    return str(instance.spawn("Sh", script, "--workspace", "shop", "--name", name)["session_id"])


def clear(instance: SandboxInstance, session_id: str) -> None:
    instance.sm("kill", session_id, "--force")
    instance.sm("sandbox", "rm", "shop", "--force")


def steps_of(instance: SandboxInstance) -> int:
    """The number of steps of a spawn that makes the container. The first one takes more."""
    steps = 0
    for name in ("first", "second"):
        before = instance.loop.steps
        session_id = start(instance, name)
        steps = instance.loop.steps - before
        clear(instance, session_id)
    return steps


@pytest.mark.parametrize("part", range(PARTS))
def test_spawn_starts_one_agent_in_one_container_when_the_daemon_crashes_at_any_step(
    instance: SandboxInstance, part: int
) -> None:
    crashes = 0
    for number, steps in enumerate(crash_points(steps_of(instance), part)):
        dropped = instance.world.drop_after(steps)
        session_id = start(instance, f"number-{number}")  # starts another daemon, and tries again
        crashes += dropped.done()
        runs_once(instance, session_id)
        assert [event["type"] for event in instance.events(session_id)] == ["spawned", "started"]
        assert [s["friendly_name"] for s in instance.json("all")].count(f"sh-number-{number}") == 1
        clear(instance, session_id)
    assert crashes >= CRASHES - 1, "a crash may come after the answer"


def test_kill_ends_the_agent_when_the_daemon_crashes_at_any_step(instance: SandboxInstance) -> None:
    other, killed = start(instance, "other"), start(instance, "killed")
    before = instance.loop.steps
    instance.sm("kill", killed)
    for number, steps in enumerate(crash_points(instance.loop.steps - before, 0)):
        killed = start(instance, f"killed-{number}")
        _ = instance.world.drop_after(steps)
        instance.run("kill", killed)
        instance.run("daemon", "start")
        assert instance.ended(killed)["status"] == "killed"
        assert processes_of(killed) == []
        runs_once(instance, other)


@pytest.mark.parametrize("part", range(PARTS))
def test_restore_starts_one_agent_when_the_daemon_crashes_at_any_step(
    instance: SandboxInstance, part: int
) -> None:
    session_id = start(instance, "restored")
    instance.sm("kill", session_id, "--force")
    before = instance.loop.steps
    instance.sm("restore", session_id)
    runs_once(instance, session_id, 2)
    for number, steps in enumerate(crash_points(instance.loop.steps - before, part)):
        instance.sm("kill", session_id, "--force")
        _ = instance.world.drop_after(steps)
        instance.sm("restore", session_id)
        runs_once(instance, session_id, 3 + number)
