"""Restarts of sandboxed sessions: the agent in the container crashes, and the engine is killed."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine import EngineProcess
from tests.instance import Instance
from tests.integration.test_sandbox import open_instance, processes_of
from tests.load import until

SCRIPT = "echo run >> runs; sleep 1001 & exec sleep 1000"


@pytest.fixture
def instance(engine: str, sandbox_image: str) -> Iterator[Instance]:
    instance = open_instance(engine, sandbox_image)
    yield instance
    instance.end()


def started(instance: Instance) -> dict[str, Any]:
    session = instance.spawn("Sh", SCRIPT, "--workspace", "shop", "--restart", "on-failure")
    assert session["effective_mode"] == "sandboxed"
    until(lambda: runs(instance) == 1, "the program runs")
    return session


def runs(instance: Instance) -> int:
    return len((instance.work / "runs").read_text().splitlines())


def again(instance: Instance, session: dict[str, Any]) -> dict[str, Any]:
    """The session, once another process runs."""

    def look() -> dict[str, Any] | None:
        now = instance.session(session["session_id"])
        return now if now["pid"] not in (None, session["pid"]) else None

    return until(look, "another process runs", 60)


def test_agent_that_is_killed_in_its_container_starts_again(instance: Instance) -> None:
    session = started(instance)
    old = set(processes_of(session["session_id"]))
    os.kill(session["pid"], signal.SIGKILL)
    now = again(instance, session)
    assert (now["status"], now["restarts"]["total"]) == ("running", 1)
    until(lambda: runs(instance) == 2, "the program runs again")
    assert not old & set(processes_of(session["session_id"])), "what was left of the old process has ended"
    instance.sm("kill", session["session_id"])


def test_session_starts_again_when_the_engine_was_killed(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    with open_instance(private_engine.url, sandbox_image) as instance:
        session = started(instance)
        private_engine.kill()
        until(
            lambda: instance.session(session["session_id"])["restarts"]["total"] == 1, "the crash is seen", 60
        )
        private_engine.start()
        assert again(instance, session)["status"] == "running"
        instance.sm("kill", session["session_id"])
