"""The engine and the containers of live sandboxed sessions end: each session is told once, and restored or ended."""

import asyncio
import signal
from collections.abc import Iterator
from contextvars import Context
from typing import Any
from unittest import mock

import pytest

from sm.client.http import DaemonAway
from sm.terminals.base import Pane
from tests.sim.engine import SOCKET
from tests.sim.panes import PlayedPane
from tests.sim.sandbox_stage import SandboxInstance, open_instance, processes_of
from tests.sim.stage import until
from tests.sim.terminals import FakeTerminals


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    with open_instance() as instance:
        yield instance


def sleepers(instance: SandboxInstance, number: int) -> dict[str, int]:
    """Start sessions; their ids and pids."""
    made = [instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"] for _ in range(number)]
    return {session: instance.session(session)["pid"] for session in made}


def restored(instance: SandboxInstance, session_id: str, before: int) -> int:
    """Wait until the session has another process, the only one; return its pid."""

    def look() -> int | None:
        now = instance.session(session_id)
        return now["pid"] if now["status"] == "running" and now["pid"] not in (None, before) else None

    pid: int = until(look, f"session {session_id} runs again")
    assert processes_of(session_id) == [pid]
    return pid


def ends_told(instance: SandboxInstance, session_id: str) -> int:
    return [event["type"] for event in instance.events(session_id)].count("error")


def test_agents_go_on_in_new_terminals_when_the_engine_was_killed(
    instance: SandboxInstance,
) -> None:
    instance.engine.is_live_restoring = True
    before = sleepers(instance, 2)
    instance.engine.kill()
    instance.engine.start()
    for session_id, pid in before.items():
        restored(instance, session_id, pid)
        assert ends_told(instance, session_id) == 1


def test_agents_are_restored_when_the_daemon_was_killed_while_it_waited_for_the_engine(
    instance: SandboxInstance,
) -> None:
    instance.engine.is_live_restoring = True
    before = sleepers(instance, 4)
    instance.engine.kill()
    for session_id in before:
        instance.ended(session_id)
    instance.kill_daemon()
    instance.engine.start()
    instance.start_daemon()
    for session_id, pid in before.items():
        restored(instance, session_id, pid)
        assert ends_told(instance, session_id) == 1


def test_agents_are_restored_that_ended_with_the_engine_while_no_daemon_ran(
    instance: SandboxInstance,
) -> None:
    """The engine ends the containers of its predecessor, and nobody sees the agents end."""
    before = sleepers(instance, 4)
    instance.engine.kill()
    instance.kill_daemon()
    instance.engine.start()
    until(lambda: not any(map(processes_of, before)), "the agents have ended")
    instance.start_daemon()
    for session_id, pid in before.items():
        restored(instance, session_id, pid)
        assert ends_told(instance, session_id) == 1


def test_restore_all_waits_for_nothing_and_works_as_soon_as_the_engine_is_back() -> None:
    """The engine dies, then the daemon. A person restores while the engine is away, and again when it is back."""
    with open_instance(", on_engine_restart: end") as instance:
        before = sleepers(instance, 3)
        instance.engine.kill()
        instance.kill_daemon()
        # The containers of a killed engine go on without it, and their terminals end with it.
        instance.start_daemon()
        for session_id in before:
            instance.ended(session_id)
        refused = instance.run("restore", "--all", "--continue")
        assert refused.returncode == 9
        assert refused.stderr.count("no Docker engine listens") == 3
        assert [instance.session(s)["status"] for s in before] == ["error"] * 3
        instance.engine.start()
        instance.sm("restore", "--all", "--continue")
        for session_id, pid in before.items():
            restored(instance, session_id, pid)
            assert instance.session(session_id)["effective_mode"] == "sandboxed"
            assert ends_told(instance, session_id) == 1
        assert instance.sm("restore", "--all") == "no sessions to restore\n"


def test_idle_container_is_stopped_by_the_daemon_after_the_one_that_was_killed() -> None:
    with open_instance(", idle_stop_s: 20") as instance:
        [session_id] = sleepers(instance, 1)
        instance.sm("kill", session_id)
        instance.kill_daemon()
        [container] = instance.containers
        assert container.is_running
        instance.start_daemon()
        until(lambda: not container.is_running, "the idle container is stopped", 120)


def test_agents_end_with_the_engine_when_the_configuration_says_so() -> None:
    with open_instance(", on_engine_restart: end") as instance:
        instance.engine.is_live_restoring = True
        before = sleepers(instance, 2)
        instance.engine.kill()
        for session_id in before:
            instance.ended(session_id)
        instance.engine.start()
        again = sleepers(instance, 1)
        for session_id in before:
            assert ends_told(instance, session_id) == 1
            assert instance.session(session_id)["status"] == "error"
            assert processes_of(session_id) == []
        assert [*again] == [s for s in again if instance.session(s)["status"] == "running"]


def test_start_that_a_crash_interrupted_fails_with_the_reason_when_the_engine_is_away(
    instance: SandboxInstance,
) -> None:
    async def crash(*_: object, **__: object) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(instance.kill_daemon, context=Context())  # as another process
        await loop.create_future()

    body = {"agent_type": "Sleeper", "workspace": "shop", "cwd": str(instance.work), "environment": {}}
    with mock.patch.object(FakeTerminals, "open", crash):
        [answer] = instance.post_together((None, "/v1/sessions", body))
    assert isinstance(answer, DaemonAway)
    instance.engine.kill()
    instance.start_daemon()
    [session] = instance.json("all")
    assert f"no Docker engine listens on {SOCKET}" in instance.ended(session["session_id"])["status_reason"]
    instance.engine.start()
    sleepers(instance, 1)


def test_session_cut_off_for_the_fourth_time_in_ten_minutes_is_not_restored(
    instance: SandboxInstance,
) -> None:
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


def test_hung_engine_fails_the_start_of_one_session_and_delays_no_other(
    instance: SandboxInstance,
) -> None:
    neighbours = sleepers(instance, 2)
    script = "while [ ! -e go ]; do sleep 0.1; done; sm note reported; exec sleep 1000"
    reporter = instance.spawn("Sh", script, "--workspace", "shop")["session_id"]
    instance.restart()
    open = FakeTerminals.open

    async def hang_and_open(terminals: FakeTerminals, *order: Any, **more: Any) -> Pane:
        instance.engine.hang()
        return await open(terminals, *order, **more)

    with mock.patch.object(FakeTerminals, "open", hang_and_open):
        started = "echo x >> started; exec sleep 1000"
        spawning = instance.start_command("spawn", "Sh", started, "--workspace", "shop", "--name", "late")
        until(lambda: instance.engine.hangs, "the daemon is about to start the agent")
    direct = instance.spawn("Sleeper", "x", "--trust", "direct", cwd=instance.home)["session_id"]
    assert instance.session(direct)["status"] == "running"
    (instance.work / "go").touch()
    until(lambda: instance.session(reporter)["note"] == "reported", "an agent of the container reports")
    ended, lives = neighbours
    instance.sm("kill", ended)
    assert instance.ended(ended)["status"] == "killed"
    assert processes_of(ended) == []
    assert spawning.poll() is None  # until now the engine hangs, and the start waits for it
    _, told = spawning.communicate(timeout=60)
    assert spawning.returncode == 10, told
    assert "session sh-late is still starting" in told
    [late] = [s["session_id"] for s in instance.json("all") if s["friendly_name"] == "sh-late"]
    failed = instance.ended(late)
    assert (failed["status"], ends_told(instance, late)) == ("error", 1)
    assert "did not start within 30 s" in failed["status_reason"]
    instance.engine.resume()
    [(later, pid)] = sleepers(instance, 1).items()
    assert instance.session(late)["status"] == "error"
    assert processes_of(late) == []
    assert not (instance.work / "started").exists()
    assert processes_of(later) == [pid]
    assert processes_of(lives) == [neighbours[lives]]
    assert len(instance.containers) == 1


def agent_that_ends(instance: SandboxInstance, code: int) -> str:
    """Start a session whose agent exits with `code` when `go` exists."""
    script = f"while [ ! -e go ]; do sleep 0.1; done; exit {code}"
    return str(instance.spawn("Sh", script, "--workspace", "shop")["session_id"])


def end_in_hung_engine(instance: SandboxInstance, session_id: str) -> None:
    """Let the agent end while the engine hangs, and wait until the daemon shows that it does not know how."""
    pid = instance.session(session_id)["pid"]
    instance.engine.hang()
    (instance.work / "go").touch()
    until(lambda: pid not in processes_of(session_id), "the agent has ended")
    until(lambda: instance.session(session_id)["status_stale"], "the status is unverified")


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (3, "error")])
@pytest.mark.parametrize("restarts", [False, True], ids=["same daemon", "next daemon"])
def test_exit_of_an_agent_that_ends_while_the_engine_hangs_is_known_when_the_engine_answers(
    instance: SandboxInstance, code: int, status: str, restarts: bool
) -> None:
    session_id = agent_that_ends(instance, code)
    end_in_hung_engine(instance, session_id)
    if restarts:
        instance.kill_daemon()
        instance.start_daemon()
    instance.wait(60)
    assert instance.session(session_id)["status"] == "running"
    instance.engine.resume()
    ended = instance.ended(session_id)
    assert (ended["status"], ended["exit_code"], ended["status_stale"]) == (status, code, False)


def test_killed_agent_has_ended_while_the_engine_hangs(instance: SandboxInstance) -> None:
    gone, [session_id] = agent_that_ends(instance, 0), sleepers(instance, 1)
    instance.engine.hang()
    instance.sm("kill", session_id)
    assert instance.session(session_id)["status"] == "killed"
    (instance.work / "go").touch()
    until(lambda: instance.session(gone)["status_stale"], "the engine keeps the exit of the other agent")
    trouble = (
        f"the agent of session {gone} has ended, and the container engine, which knows how, does not respond"
    )
    assert trouble in instance.json("status")["trouble"]
    instance.sm("kill", gone)  # it ended before: the kill only ends the wait for its exit
    ended = instance.session(gone)
    assert (ended["status"], ended["exit_code"], ended["exit_signal"]) == ("error", None, None)
    assert trouble not in instance.json("status")["trouble"]
    instance.engine.resume()


def test_agent_that_ends_in_a_hung_engine_is_restored_when_that_engine_was_killed(
    instance: SandboxInstance,
) -> None:
    """Nobody can know whether the agent ended before the engine did."""
    instance.engine.is_live_restoring = True
    session_id = agent_that_ends(instance, 0)
    before = instance.session(session_id)["pid"]
    end_in_hung_engine(instance, session_id)
    (instance.work / "go").unlink()
    instance.engine.kill()
    instance.engine.start()
    restored(instance, session_id, before)
    assert ends_told(instance, session_id) == 1


def cut_off(instance: SandboxInstance) -> None:
    """Kill the command that connects the only agent with its terminal, as the engine does when it ends."""

    def look() -> PlayedPane | None:
        panes = instance.world.server.panes.values()
        found = [pane for pane in panes if pane.exit is None and pane.process.argv[0] == "docker"]
        return found[0] if len(found) == 1 else None

    instance.world.kernel.kill(until(look, "the agent has one terminal").process.pid, signal.SIGKILL)


def test_sessions_end_with_their_container_and_the_next_one_starts(
    instance: SandboxInstance,
) -> None:
    before = sleepers(instance, 2)
    [container] = instance.containers
    assert container.init is not None
    instance.world.kernel.signal(container.init, signal.SIGKILL)
    for session_id in before:
        instance.ended(session_id)
        assert ends_told(instance, session_id) == 1
        assert processes_of(session_id) == []
    [(session_id, pid)] = sleepers(instance, 1).items()
    assert processes_of(session_id) == [pid]
    assert len(instance.containers) == 1


def test_agent_of_a_hung_engine_is_refused_and_never_runs_directly(
    instance: SandboxInstance,
) -> None:
    """`sandbox.fallback: warn` is for a machine without an engine."""
    instance.engine.hang()
    refused = instance.refused("spawn", "Sleeper", "x", "--workspace", "shop", exit_code=9)
    assert f"sm: the Docker engine at {instance.engine.url} does not respond" in refused
    assert instance.json("all") == []
    instance.engine.resume()
    session_id = instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
    assert instance.session(session_id)["effective_mode"] == "sandboxed"


def test_session_that_fell_back_asks_for_the_sandbox_when_there_is_one() -> None:
    with open_instance(has_engine=False) as instance:
        fallen = instance.spawn("Sleeper", "x")["session_id"]
        assert instance.session(fallen)["effective_mode"] == "direct"
        instance.sm("kill", fallen)
        instance.engine.start()
        refused = instance.refused("restore", fallen, exit_code=9)
        assert "there was no sandbox, and now there is one" in refused
        assert "--trust direct" in refused
        assert instance.session(fallen)["status"] == "killed"
        instance.engine.kill()  # its socket stays
        refused = instance.refused("spawn", "Sleeper", "x", exit_code=9)
        assert "no Docker engine listens" in refused
        instance.engine.start()
        assert instance.spawn("Sleeper", "x")["effective_mode"] == "sandboxed"
        instance.engine.stop()
        refused = instance.refused("spawn", "Sleeper", "x", exit_code=9)
        assert "no Docker engine runs" in refused
        restored_one = instance.json("restore", fallen, "--trust", "direct")
        assert (restored_one["trust_level"], restored_one["effective_mode"]) == ("direct", "direct")
