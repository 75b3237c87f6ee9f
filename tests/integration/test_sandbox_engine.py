"""The engine and the containers of live sandboxed sessions end: each session is told once, and restored or ended."""

import os
import signal
import subprocess

import pytest

from sm.client.http import Client, DaemonAway
from sm.linux.processes import read_stat
from tests.engine import EngineProcess
from tests.instance import SM, Instance
from tests.integration.test_sandbox import containers_of, open_instance, processes_of
from tests.load import scaled, until


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


def test_agents_are_restored_when_the_daemon_was_killed_while_it_waited_for_the_engine(
    live_engine: EngineProcess, sandbox_image: str
) -> None:
    instance = open_instance(live_engine.url, sandbox_image)
    try:
        before = sleepers(instance, 4)
        live_engine.kill()
        for session_id in before:
            instance.ended(session_id)
        instance.kill_daemon()
        live_engine.start()
        instance.start_daemon()
        for session_id, pid in before.items():
            restored(instance, session_id, pid)
            assert ends_told(instance, session_id) == 1
    finally:
        instance.end()


def test_agents_are_restored_that_ended_with_the_engine_while_no_daemon_ran(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    """The engine ends the containers of its predecessor, and nobody sees the agents end."""
    instance = open_instance(private_engine.url, sandbox_image)
    try:
        before = sleepers(instance, 4)
        private_engine.kill()
        instance.kill_daemon()
        private_engine.start()
        until(lambda: not any(map(processes_of, before)), "the agents have ended")
        instance.start_daemon()
        for session_id, pid in before.items():
            restored(instance, session_id, pid)
            assert ends_told(instance, session_id) == 1
    finally:
        instance.end()


def test_restore_all_waits_for_nothing_and_works_as_soon_as_the_engine_is_back(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    """The engine dies, then the daemon. A person restores while the engine is away, and again when it is back."""
    instance = open_instance(private_engine.url, sandbox_image, ", on_engine_restart: end")
    try:
        before = sleepers(instance, 3)
        private_engine.kill()
        instance.kill_daemon()
        # The containers of a killed engine go on without it, and their terminals end with it.
        instance.start_daemon()
        for session_id in before:
            instance.ended(session_id)
        refused = instance.run("restore", "--all", "--continue")
        assert refused.returncode == 9
        assert refused.stderr.count("no Docker engine listens") == 3
        assert [instance.session(s)["status"] for s in before] == ["error"] * 3
        private_engine.start()
        instance.sm("restore", "--all", "--continue")
        for session_id, pid in before.items():
            restored(instance, session_id, pid)
            assert instance.session(session_id)["effective_mode"] == "sandboxed"
            assert ends_told(instance, session_id) == 1
        assert instance.sm("restore", "--all") == "no sessions to restore\n"
    finally:
        instance.end()


def test_idle_container_is_stopped_by_the_daemon_after_the_one_that_was_killed(
    engine: str, sandbox_image: str
) -> None:
    instance = open_instance(engine, sandbox_image, ", idle_stop_s: 20")
    try:
        [session_id] = sleepers(instance, 1)
        instance.sm("kill", session_id)
        instance.kill_daemon()
        [container] = containers_of(engine, instance)
        shown = ["docker", "-H", engine, "inspect", "-f", "{{.State.Running}}", container]

        def runs() -> bool:
            return subprocess.run(shown, capture_output=True, check=True).stdout.strip() == b"true"

        assert runs()
        instance.start_daemon()
        until(lambda: not runs(), "the idle container is stopped", 120)
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
        daemon = instance.start_daemon("Tmux.open before 1")
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


def test_hung_engine_fails_the_start_of_one_session_and_delays_no_other(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    instance = open_instance(private_engine.url, sandbox_image)
    try:
        neighbours = sleepers(instance, 2)
        script = "until [ -e go ]; do sleep 0.1; done; sm note reported; exec sleep 1000"
        reporter = instance.spawn("Sh", script, "--workspace", "shop")["session_id"]
        instance.kill_daemon()
        daemon = instance.start_daemon("PaneCreator._start_agent before 1 SIGSTOP")
        spawning = subprocess.Popen(
            [SM, "spawn", "Sh", "echo x >> started; exec sleep 1000", "--workspace", "shop", "--name", "late"],
            env=instance.env, cwd=instance.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        until(lambda: is_suspended(daemon.pid), "the daemon is about to start the agent")
        private_engine.hang()
        daemon.send_signal(signal.SIGCONT)
        direct = instance.spawn("Sleeper", "x", "--trust", "direct", cwd=instance.home)["session_id"]
        assert instance.session(direct)["status"] == "running"
        (instance.work / "go").touch()
        until(lambda: instance.session(reporter)["note"] == "reported", "an agent of the container reports")
        ended, lives = neighbours
        instance.sm("kill", ended)
        assert instance.ended(ended)["status"] == "killed"
        assert processes_of(ended) == []
        assert spawning.poll() is None  # until now the engine hangs, and the start waits for it
        _, told = spawning.communicate(timeout=scaled(60))
        assert spawning.returncode == 10, told
        assert "session sh-late is still starting" in told
        [late] = [s["session_id"] for s in instance.json("all") if s["friendly_name"] == "sh-late"]
        failed = instance.ended(late)
        assert (failed["status"], ends_told(instance, late)) == ("error", 1)
        assert "did not start within 30 s" in failed["status_reason"]
        private_engine.resume()
        [(later, pid)] = sleepers(instance, 1).items()
        assert instance.session(late)["status"] == "error"
        assert processes_of(late) == []
        assert not (instance.work / "started").exists()
        assert processes_of(later) == [pid]
        assert processes_of(lives) == [neighbours[lives]]
        assert len(containers_of(private_engine.url, instance)) == 1
    finally:
        if private_engine.process() is not None:
            private_engine.resume()
        instance.end()


def is_suspended(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.stopped


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


@pytest.mark.timeout(400)
def test_agent_of_a_hung_engine_is_refused_and_never_runs_directly(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    """`sandbox.fallback: warn` is for a machine without an engine."""
    instance = open_instance(private_engine.url, sandbox_image)
    try:
        private_engine.hang()
        refused = instance.refused("spawn", "Sleeper", "x", "--workspace", "shop", exit_code=9)
        assert f"sm: the Docker engine at {private_engine.url} does not respond" in refused
        assert instance.json("all") == []
        private_engine.resume()
        session_id = instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
        assert instance.session(session_id)["effective_mode"] == "sandboxed"
    finally:
        private_engine.resume()
        instance.end()


def test_session_that_fell_back_asks_for_the_sandbox_when_there_is_one(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    private_engine.stop()
    private_engine.socket.unlink(missing_ok=True)
    instance = open_instance(private_engine.url, sandbox_image)
    try:
        fallen = instance.spawn("Sleeper", "x")["session_id"]
        assert instance.session(fallen)["effective_mode"] == "direct"
        instance.sm("kill", fallen)
        private_engine.start()
        refused = instance.refused("restore", fallen, exit_code=9)
        assert "there was no sandbox, and now there is one" in refused
        assert "--trust direct" in refused
        assert instance.session(fallen)["status"] == "killed"
        private_engine.kill()  # its socket stays
        refused = instance.refused("spawn", "Sleeper", "x", exit_code=9)
        assert "no Docker engine listens" in refused
        private_engine.start()
        assert instance.spawn("Sleeper", "x")["effective_mode"] == "sandboxed"
        private_engine.stop()
        private_engine.socket.unlink(missing_ok=True)
        refused = instance.refused("spawn", "Sleeper", "x", exit_code=9)
        assert "no Docker engine runs" in refused
        restored_one = instance.json("restore", fallen, "--trust", "direct")
        assert (restored_one["trust_level"], restored_one["effective_mode"]) == ("direct", "direct")
    finally:
        private_engine.start()
        instance.end()
