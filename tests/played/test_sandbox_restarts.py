"""Restarts of sandboxed sessions: the agent in the container crashes, and the engine is killed."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sim.programs import Running
from tests.sim.sandbox_stage import SandboxInstance, open_instance, processes_of
from tests.sim.stage import until

SCRIPT = "echo run >> runs; exec parent"


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    with open_instance() as instance:
        instance.world.programs.installed["parent"] = parent
        yield instance


async def parent(program: Running) -> None:
    """Start another process, and sleep."""
    program.kernel.start(("sleep", "1001"), program.environ, "/", parent=program.process.pid)
    await asyncio.sleep(1000)


def started(instance: SandboxInstance) -> dict[str, Any]:
    session = instance.spawn("Sh", SCRIPT, "--workspace", "shop", "--restart", "on-failure")
    assert session["effective_mode"] == "sandboxed"
    until(lambda: runs(instance) == 1, "the program runs")
    return session


def runs(instance: SandboxInstance) -> int:
    return len((instance.work / "runs").read_text().splitlines())


def again(instance: SandboxInstance, session: dict[str, Any]) -> dict[str, Any]:
    """The session, once another process runs."""

    def look() -> dict[str, Any] | None:
        now = instance.session(session["session_id"])
        return now if now["pid"] not in (None, session["pid"]) else None

    return until(look, "another process runs", 60)


def test_agent_that_is_killed_in_its_container_starts_again(instance: SandboxInstance) -> None:
    session = started(instance)
    old = set(processes_of(session["session_id"]))
    instance.world.kernel.kill(session["pid"], signal.SIGKILL)
    now = again(instance, session)
    assert (now["status"], now["restarts"]["total"]) == ("running", 1)
    until(lambda: runs(instance) == 2, "the program runs again")
    assert not old & set(processes_of(session["session_id"])), "what was left of the old process has ended"
    instance.sm("kill", session["session_id"])


def test_session_starts_again_when_the_engine_was_killed(
    instance: SandboxInstance,
) -> None:
    session = started(instance)
    instance.engine.kill()
    until(lambda: instance.session(session["session_id"])["restarts"]["total"] == 1, "the crash is seen", 60)
    instance.engine.start()
    assert again(instance, session)["status"] == "running"
    instance.sm("kill", session["session_id"])
