"""All ways in which an agent can end, and the status, exit code and signal that sm reports."""

import fcntl
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sm.client.http import Client, new_key
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.ended_agents import ENDED, end_events, gone, outcome, tmux_server, wait_line

shared = context_fixture("module", Instance, "limits: {max_per_workspace: 10000}")
"""Shared by tests that disturb neither the daemon nor tmux."""


def spawn_script(instance: Instance, script: str) -> dict[str, Any]:
    """Spawn `script` by an HTTP request, which is faster than the command."""
    body = {"agent_type": "Sh", "prompt": script, "cwd": str(instance.work), "environment": dict(os.environ)}
    session: dict[str, Any] = Client(str(instance.socket)).post("/v1/sessions", body, key=new_key())
    return session


def test_exit_codes_are_right_when_100_agents_exit_together(shared: Instance) -> None:
    shared.sm("status")
    gate = shared.work / "gate"
    with gate.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # all agents wait for a shared lock on the file
        scripts = [f"flock -s gate true; exit {code}" for code in range(100)]
        with ThreadPoolExecutor(8) as pool:
            ids = [s["session_id"] for s in pool.map(lambda script: spawn_script(shared, script), scripts)]
    sessions = {}

    def all_ended() -> bool:
        sessions.update({s["session_id"]: s for s in shared.get("/v1/sessions")})
        return all(sessions[session_id]["status"] in ENDED for session_id in ids)

    until(all_ended, "all agents have ended")
    expected = [("completed" if code == 0 else "error", code, None) for code in range(100)]
    assert [outcome(sessions[session_id]) for session_id in ids] == expected
    events = [e for e in shared.events() if e["session_id"] in ids]
    for session_id in ids:
        types = [e["type"] for e in events if e["session_id"] == session_id]
        assert types == ["spawned", "started", sessions[session_id]["status"]]


def send_signal(number: int) -> Callable[[Instance, dict[str, Any]], None]:
    return lambda instance, session: os.kill(session["pid"], number)


def press_key(key: str) -> Callable[[Instance, dict[str, Any]], object]:
    return lambda instance, session: instance.tmux("send-keys", "-t", f"={session['tmux_session']}:", key)


def run_tmux(command: str) -> Callable[[Instance, dict[str, Any]], object]:
    return lambda instance, session: instance.tmux(command, "-t", f"={session['tmux_session']}:")


@pytest.mark.parametrize(
    ("end", "exit_signal", "reason"),
    [
        pytest.param(press_key("C-c"), signal.SIGINT, "signal 2", id="C-c"),
        pytest.param(press_key("C-\\"), signal.SIGQUIT, "signal 3", id="C-backslash"),
        pytest.param(send_signal(signal.SIGTERM), signal.SIGTERM, "signal 15", id="SIGTERM"),
        pytest.param(send_signal(signal.SIGKILL), signal.SIGKILL, "signal 9", id="SIGKILL"),
        pytest.param(send_signal(signal.SIGHUP), signal.SIGHUP, "signal 1", id="SIGHUP"),
        pytest.param(run_tmux("kill-session"), None, "the terminal was closed", id="kill-session"),
        pytest.param(run_tmux("kill-pane"), None, "the terminal was closed", id="kill-pane"),
    ],
)
def test_status_reason_names_the_key_signal_or_tmux_command_that_ended_the_agent(
    shared: Instance, end: Callable[[Instance, dict[str, Any]], object], exit_signal: int | None, reason: str
) -> None:
    session = shared.spawn("Sleeper")
    end(shared, session)
    ended = shared.ended(session["session_id"])
    assert outcome(ended) == ("error", None, exit_signal)
    assert reason in ended["status_reason"]
    assert end_events(shared, session["session_id"]) == ["error"]


def test_ctrl_z_does_not_suspend_the_agent(shared: Instance) -> None:
    # The kernel discards SIGTSTP for a process group without a parent shell, which could continue it.
    session = shared.spawn("Sh", 'while read -r word; do echo "heard $word"; done')
    target = f"={session['tmux_session']}:"
    shared.tmux("send-keys", "-t", target, "C-z")
    shared.tmux("send-keys", "-t", target, "-l", "still there")
    shared.tmux("send-keys", "-t", target, "Enter")
    until(lambda: "heard still there" in shared.output(session["session_id"]), "the agent reads on")
    assert shared.session(session["session_id"])["status"] == "running"


def test_agent_that_exits_0_on_sigterm_is_completed(shared: Instance) -> None:
    session = shared.spawn("Sh", 'trap "exit 0" TERM; echo yes > trapped; while :; do sleep 0.05; done')
    wait_line(shared.work / "trapped")
    os.kill(session["pid"], signal.SIGTERM)
    assert outcome(shared.ended(session["session_id"])) == ("completed", 0, None)


def test_kill_sends_sigterm_first_and_lets_the_agent_clean_up(shared: Instance) -> None:
    script = 'trap "echo bye > bye; exit 3" TERM; echo yes > polite; while :; do sleep 0.05; done'
    session_id = shared.spawn("Sh", script)["session_id"]
    wait_line(shared.work / "polite")
    shared.sm("kill", session_id)
    assert (shared.work / "bye").read_text() == "bye\n"
    ended = shared.session(session_id)
    assert outcome(ended) == ("killed", 3, None)
    assert "sm kill" in ended["status_reason"]
    assert end_events(shared, session_id) == ["killed"]


def test_kill_force_sends_no_sigterm(shared: Instance) -> None:
    script = 'trap "echo bye > asked" TERM; echo yes > ready; while :; do sleep 0.05; done'
    session_id = shared.spawn("Sh", script)["session_id"]
    wait_line(shared.work / "ready")
    shared.sm("kill", session_id, "--force")
    assert outcome(shared.session(session_id)) == ("killed", None, signal.SIGKILL)
    assert not (shared.work / "asked").exists()


def test_kill_ends_all_descendants_of_the_agent(shared: Instance) -> None:
    child = 'sh -c "echo \\$\\$ > {0}; exec sleep 1000"'
    script = (
        f"{child.format('near')} & setsid {child.format('far')} & nohup {child.format('deaf_to_hup')} &"
        f" ({child.format('orphan')} &) ; echo $$ > self; wait"
    )
    session_id = shared.spawn("Sh", script)["session_id"]
    names = ("self", "near", "far", "deaf_to_hup", "orphan")
    pids = {name: int(wait_line(shared.work / name)) for name in names}
    assert not [name for name, pid in pids.items() if gone(pid)]
    shared.sm("kill", session_id)
    assert [name for name, pid in pids.items() if not gone(pid)] == []


@pytest.mark.parametrize("way", ["kill-server", "SIGKILL"])
def test_every_session_ends_with_a_reason_when_the_tmux_server_ends(instance: Instance, way: str) -> None:
    ids = [instance.spawn("Sleeper")["session_id"] for _ in range(5)]
    if way == "SIGKILL":
        os.kill(tmux_server(instance), signal.SIGKILL)
    else:
        instance.tmux("kill-server")
    for session_id in ids:
        ended = instance.ended(session_id)
        assert outcome(ended) == ("error", None, None)
        assert ended["status_reason"] == "the tmux server has ended"
        assert end_events(instance, session_id) == ["error"]
    assert instance.spawn("Sleeper")["status"] == "running"  # in a new tmux server


def test_exit_codes_are_right_when_agents_end_while_no_daemon_runs(instance: Instance) -> None:
    instance.sm("status")
    with (instance.work / "gate").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sessions = [spawn_script(instance, f"flock -s gate true; exit {code}") for code in range(10)]
        sessions.append(spawn_script(instance, "flock -s gate true; kill -9 $$"))
        instance.kill_daemon()
    until(lambda: all(gone(s["pid"]) for s in sessions), "all agents have ended")
    outcomes = [outcome(instance.ended(s["session_id"])) for s in sessions]
    assert outcomes[:-1] == [("completed" if code == 0 else "error", code, None) for code in range(10)]
    assert outcomes[-1] == ("error", None, signal.SIGKILL)
    assert [end_events(instance, s["session_id"]) for s in sessions] == [
        [status] for status, _, _ in outcomes
    ]
