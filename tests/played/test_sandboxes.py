"""Sandboxed sessions as a user sees them, on a played engine."""

from collections.abc import Iterator

import pytest

from tests.sim.sandbox_stage import SandboxInstance, processes_of


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    with SandboxInstance() as instance:
        yield instance


def test_exit_codes_and_signals_are_told(instance: SandboxInstance) -> None:
    coded = instance.spawn("Sh", "sleep 0.5; exit 7", "--workspace", "shop")
    assert coded["effective_mode"] == "sandboxed"
    assert "exit code 7" in instance.ended(coded["session_id"])["status_reason"]
    killed = instance.spawn("Sleeper", "x", "--workspace", "shop")
    instance.world.kernel.kill(instance.session(killed["session_id"])["pid"], 9)
    assert "signal 9" in instance.ended(killed["session_id"])["status_reason"]
    assert len(instance.containers) == 1


def test_daemon_that_was_killed_finds_its_agents_again(instance: SandboxInstance) -> None:
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    before = instance.session(session["session_id"])
    instance.kill_daemon()
    assert instance.json("status", session["session_id"])["pid"] == before["pid"]
    another = instance.spawn("Sleeper", "x", "--workspace", "shop")
    assert another["effective_mode"] == "sandboxed"
    assert len(instance.containers) == 1
    instance.sm("kill", session["session_id"])
    assert processes_of(session["session_id"]) == []


def test_reports_from_inside_reach_the_daemon(instance: SandboxInstance) -> None:
    script = 'sm checkpoint "half way"; sm complete "all done"; sleep 1000'
    session = instance.spawn("Sh", script, "--workspace", "shop")

    done = instance.in_status(session["session_id"], "completed")
    assert "all done" in str(done)
