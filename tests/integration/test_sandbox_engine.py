"""The engine and the containers of live sandboxed sessions end: each session is told once, and restored or ended."""

import os
import signal
import subprocess

import pytest

from sm.client.http import Client, DaemonAway
from tests.engine import EngineProcess
from tests.instance import Instance
from tests.integration.test_sandbox import containers_of, open_instance, processes_of
from tests.load import until


@pytest.fixture
def live_engine(private_engine: EngineProcess) -> EngineProcess:
    """An engine whose containers go on while it is away."""
    private_engine.stop()
    private_engine.options = ("--live-restore",)
    private_engine.start()
    return private_engine


def sleepers(instance: Instance, number: int) -> dict[str, int]:
    """Start sessions; their ids and pids."""
    made = [instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"] for _ in range(number)]
    return {session: instance.session(session)["pid"] for session in made}


def restored(instance: Instance, session_id: str, before: int) -> int:
    """Wait until the session has another process, the only one; return its pid."""

    def look() -> int | None:
        now = instance.session(session_id)
        return now["pid"] if now["status"] == "running" and now["pid"] not in (None, before) else None

    pid: int = until(look, f"session {session_id} runs again")
    assert processes_of(session_id) == [pid]
    return pid


def ends_told(instance: Instance, session_id: str) -> int:
    return [event["type"] for event in instance.events(session_id)].count("error")


def test_agents_go_on_in_new_terminals_when_the_engine_was_killed(
    live_engine: EngineProcess, sandbox_image: str
) -> None:
    instance = open_instance(live_engine.url, sandbox_image)
    try:
        before = sleepers(instance, 2)
        live_engine.kill()
        live_engine.start()
        for session_id, pid in before.items():
            restored(instance, session_id, pid)
            assert ends_told(instance, session_id) == 1
    finally:
        instance.end()


def test_agents_end_with_the_engine_when_the_configuration_says_so(
    live_engine: EngineProcess, sandbox_image: str
) -> None:
    instance = open_instance(live_engine.url, sandbox_image, ", on_engine_restart: end")
    try:
        before = sleepers(instance, 2)
        live_engine.kill()
        for session_id in before:
            instance.ended(session_id)
        live_engine.start()
        again = sleepers(instance, 1)
        for session_id in before:
            assert ends_told(instance, session_id) == 1
            assert instance.session(session_id)["status"] == "error"
            assert processes_of(session_id) == []
        assert [*again] == [s for s in again if instance.session(s)["status"] == "running"]
    finally:
        instance.end()


def test_start_that_a_crash_interrupted_fails_with_the_reason_when_the_engine_is_away(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    instance = open_instance(private_engine.url, sandbox_image)
    try:
        instance.kill_daemon()
        daemon = instance.start_daemon("Store.transaction after 1")
        body = {"agent_type": "Sleeper", "workspace": "shop", "cwd": str(instance.work), "environment": {}}
        with pytest.raises(DaemonAway):
            Client(str(instance.socket)).post("/v1/sessions", body, key="interrupted")
        daemon.wait()
        private_engine.kill()
        instance.start_daemon()
        [session] = instance.json("all")
        assert (
            f"no Docker engine listens on {private_engine.socket}"
            in instance.ended(session["session_id"])["status_reason"]
        )
        private_engine.start()
        sleepers(instance, 1)
    finally:
        instance.end()


def test_session_cut_off_for_the_fourth_time_in_ten_minutes_is_not_restored(
    engine: str, sandbox_image: str
) -> None:
    instance = open_instance(engine, sandbox_image)
    try:
        [(session_id, pid)] = sleepers(instance, 1).items()
        for _ in range(3):
            cut_off(instance)
            pid = restored(instance, session_id, pid)
        cut_off(instance)
        assert instance.ended(session_id)["status"] == "error"
        until(lambda: instance.events(session_id, "--type", "warning"), "a warning")
        [warning] = instance.events(session_id, "--type", "warning")
        assert "3 restores in 10 minutes" in warning["message"]
        assert processes_of(session_id) == []
    finally:
        instance.end()


def cut_off(instance: Instance) -> None:
    """Kill the command that connects the only agent with its terminal, as the engine does when it ends."""

    def look() -> int | None:
        lines = instance.tmux("list-panes", "-a", "-F", "#{pane_pid} #{pane_current_command}").splitlines()
        found = [int(line.split()[0]) for line in lines if line.endswith(" docker")]
        return found[0] if len(found) == 1 else None

    os.kill(until(look, "the agent has one terminal"), signal.SIGKILL)


def test_sessions_end_with_their_container_and_the_next_one_starts(engine: str, sandbox_image: str) -> None:
    instance = open_instance(engine, sandbox_image)
    try:
        before = sleepers(instance, 2)
        [container] = containers_of(engine, instance)
        shown = ["docker", "-H", engine, "inspect", "-f", "{{.State.Pid}}", container]
        os.kill(int(subprocess.run(shown, capture_output=True, check=True).stdout), signal.SIGKILL)
        for session_id in before:
            instance.ended(session_id)
            assert ends_told(instance, session_id) == 1
            assert processes_of(session_id) == []
        [(session_id, pid)] = sleepers(instance, 1).items()
        assert processes_of(session_id) == [pid]
        assert len(containers_of(engine, instance)) == 1
    finally:
        instance.end()
