"""Every way in which an agent can end, and what is known of it afterwards."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client, new_key
from tests.instance import SM, Instance, until
from tests.load import scaled

ENDED = ("completed", "error", "abandoned", "killed")


@pytest.fixture(scope="module")
def shared() -> Iterator[Instance]:
    """For what disturbs neither the daemon nor tmux."""
    with Instance("limits: {max_per_workspace: 10000}") as made:
        yield made


def spawned(instance: Instance, script: str) -> dict[str, Any]:
    """A session that runs `script`, by a request of our own: `sm` would only add its start-up time."""
    body = {"agent_type": "Sh", "prompt": script, "cwd": str(instance.work), "environment": dict(os.environ)}
    session: dict[str, Any] = Client(str(instance.socket)).post("/v1/sessions", body, key=new_key())
    return session


def endings(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id) if e["type"] in ENDED]


def how(session: dict[str, Any]) -> tuple[str, int | None, int | None]:
    return session["status"], session["exit_code"], session["exit_signal"]


def gone(pid: int) -> bool:
    """Also when only a zombie of it is left."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def written(path: Path) -> str:
    """The line that an agent writes to say how far it is."""
    return until(
        lambda: path.exists() and path.read_text().endswith("\n") and path.read_text(), f"{path.name}"
    )


def tmux_server(instance: Instance) -> int:
    return int(instance.tmux("display-message", "-p", "#{pid}"))


def test_a_hundred_agents_that_exit_at_once_are_a_hundred_right_exit_codes(shared: Instance) -> None:
    shared.sm("status")
    gate = shared.work / "gate"
    with gate.open("w") as held:
        fcntl.flock(
            held, fcntl.LOCK_EX
        )  # each agent waits for a lock of its own on it, which all get at once
        scripts = [f"flock -s gate true; exit {code}" for code in range(100)]
        with ThreadPoolExecutor(8) as pool:
            ids = [s["session_id"] for s in pool.map(lambda script: spawned(shared, script), scripts)]
    found = {}

    def all_ended() -> bool:
        found.update({s["session_id"]: s for s in shared.json("all")})
        return all(found[session_id]["status"] in ENDED for session_id in ids)

    until(all_ended, "all of them have ended")
    wanted = [("completed" if code == 0 else "error", code, None) for code in range(100)]
    assert [how(found[session_id]) for session_id in ids] == wanted
    events = [e for e in shared.events() if e["session_id"] in ids]
    for session_id in ids:
        mine = [e["type"] for e in events if e["session_id"] == session_id]
        assert mine == ["spawned", "started", found[session_id]["status"]]


def signalled(number: int) -> Callable[[Instance, dict[str, Any]], None]:
    return lambda instance, session: os.kill(session["pid"], number)


def keyed(key: str) -> Callable[[Instance, dict[str, Any]], object]:
    return lambda instance, session: instance.tmux("send-keys", "-t", f"={session['tmux_session']}:", key)


def closed(command: str) -> Callable[[Instance, dict[str, Any]], object]:
    return lambda instance, session: instance.tmux(command, "-t", f"={session['tmux_session']}:")


@pytest.mark.parametrize(
    ("end", "exit_signal", "reason"),
    [
        pytest.param(keyed("C-c"), signal.SIGINT, "signal 2", id="C-c"),
        pytest.param(keyed("C-\\"), signal.SIGQUIT, "signal 3", id="C-backslash"),
        pytest.param(signalled(signal.SIGTERM), signal.SIGTERM, "signal 15", id="SIGTERM"),
        pytest.param(signalled(signal.SIGKILL), signal.SIGKILL, "signal 9", id="SIGKILL"),
        pytest.param(signalled(signal.SIGHUP), signal.SIGHUP, "signal 1", id="SIGHUP"),
        pytest.param(closed("kill-session"), None, "its terminal was closed", id="kill-session"),
        pytest.param(closed("kill-pane"), None, "its terminal was closed", id="kill-pane"),
    ],
)
def test_ends_that_a_person_can_cause_in_a_terminal_are_told_apart(
    shared: Instance, end: Callable[[Instance, dict[str, Any]], object], exit_signal: int | None, reason: str
) -> None:
    session = shared.spawn("Sleeper")
    end(shared, session)
    ended = shared.ended(session["session_id"])
    assert how(ended) == ("error", None, exit_signal)
    assert reason in ended["status_reason"]
    assert endings(shared, session["session_id"]) == ["error"]


def test_an_agent_is_not_stopped_by_ctrl_z(shared: Instance) -> None:
    # Nobody would continue it: the kernel discards the signal for a process group without a shell above it.
    session = shared.spawn("Sh", 'while read -r word; do echo "heard $word"; done')
    target = f"={session['tmux_session']}:"
    shared.tmux("send-keys", "-t", target, "C-z")
    shared.tmux("send-keys", "-t", target, "-l", "still there")
    shared.tmux("send-keys", "-t", target, "Enter")
    until(lambda: "heard still there" in shared.sm("output", session["session_id"]), "it has heard us")
    assert shared.session(session["session_id"])["status"] == "running"


def test_an_agent_that_ends_well_on_sigterm_is_completed(shared: Instance) -> None:
    session = shared.spawn("Sh", 'trap "exit 0" TERM; echo yes > trapped; while :; do sleep 0.05; done')
    written(shared.work / "trapped")
    os.kill(session["pid"], signal.SIGTERM)
    assert how(shared.ended(session["session_id"])) == ("completed", 0, None)


def test_a_kill_asks_first_and_lets_the_agent_clean_up(shared: Instance) -> None:
    script = 'trap "echo bye > bye; exit 3" TERM; echo yes > polite; while :; do sleep 0.05; done'
    session_id = shared.spawn("Sh", script)["session_id"]
    written(shared.work / "polite")
    shared.sm("kill", session_id)
    assert (shared.work / "bye").read_text() == "bye\n"
    ended = shared.session(session_id)
    assert how(ended) == ("killed", 3, None)
    assert "sm kill" in ended["status_reason"]
    assert endings(shared, session_id) == ["killed"]


def test_a_kill_with_force_does_not_ask(shared: Instance) -> None:
    script = 'trap "echo bye > asked" TERM; echo yes > ready; while :; do sleep 0.05; done'
    session_id = shared.spawn("Sh", script)["session_id"]
    written(shared.work / "ready")
    shared.sm("kill", session_id, "--force")
    assert how(shared.session(session_id)) == ("killed", None, signal.SIGKILL)
    assert not (shared.work / "asked").exists()


def test_an_agent_that_ignores_sigterm_is_killed_after_the_grace_time(shared: Instance) -> None:
    script = (
        'trap "echo heard > ignored" TERM; trap "" HUP; echo yes > stubborn; while :; do sleep 0.05; done'
    )
    session_id = shared.spawn("Sh", script)["session_id"]
    written(shared.work / "stubborn")
    shared.sm("kill", session_id)
    assert how(shared.session(session_id)) == ("killed", None, signal.SIGKILL)
    assert (shared.work / "ignored").exists()


def test_a_force_cuts_the_grace_time_of_a_kill_short(shared: Instance) -> None:
    # With a child that no time would end: were the second kill to wait for the first, both would fail.
    script = 'trap "echo heard > waited" TERM; trap "" HUP; echo yes > deaf; while :; do sleep 0.05; done'
    session_id = shared.spawn("Sh", script)["session_id"]
    written(shared.work / "deaf")
    first = subprocess.Popen([SM, "kill", session_id], env=shared.env, stdout=subprocess.DEVNULL)
    until((shared.work / "waited").exists, "the first kill has asked")
    shared.sm("kill", session_id, "--force")
    assert first.wait(scaled(20)) == 0
    assert endings(shared, session_id) == ["killed"]


def test_a_kill_ends_everything_that_the_agent_started(shared: Instance) -> None:
    child = 'sh -c "echo \\$\\$ > {0}; exec sleep 1000"'
    script = (
        f"{child.format('near')} & setsid {child.format('far')} & nohup {child.format('deaf_to_hup')} &"
        f" ({child.format('orphan')} &) ; echo $$ > self; wait"
    )
    session_id = shared.spawn("Sh", script)["session_id"]
    names = ("self", "near", "far", "deaf_to_hup", "orphan")
    pids = {name: int(written(shared.work / name)) for name in names}
    assert not [name for name, pid in pids.items() if gone(pid)]
    shared.sm("kill", session_id)
    assert [name for name, pid in pids.items() if not gone(pid)] == []


def test_a_kill_of_a_completed_session_ends_its_process_and_leaves_its_status(shared: Instance) -> None:
    session_id = shared.spawn("Sh", "sm complete 'all done'; echo $? > code; exec sleep 1000")["session_id"]
    assert written(shared.work / "code") == "0\n"
    pid = shared.session(session_id)["pid"]
    assert not gone(pid)
    shared.sm("kill", session_id)
    assert gone(pid)
    after = shared.session(session_id)
    assert how(after) == ("completed", None, signal.SIGTERM)
    assert after["completion_message"] == "all done"
    assert endings(shared, session_id) == ["completed"]
    for _ in range(2):
        error = shared.refused("kill", session_id, exit_code=4)
        assert f"session {session_id} has ended (completed), its process is gone" in error


def test_a_session_that_is_killed_cannot_be_killed_again(shared: Instance) -> None:
    session_id = shared.spawn("Sleeper")["session_id"]
    shared.sm("kill", session_id)
    assert "has ended (killed)" in shared.refused("kill", session_id, exit_code=4)
    assert endings(shared, session_id) == ["killed"]


def test_a_completed_session_stays_completed_whatever_its_process_says_in_the_end(shared: Instance) -> None:
    session_id = shared.spawn("Sh", "sm complete done > complete.out 2>&1; exit 3")["session_id"]
    ended = until(
        lambda: (s := shared.session(session_id))["exit_code"] is not None and s, "its end is known"
    )
    assert how(ended) == ("completed", 3, None)
    assert endings(shared, session_id) == ["completed"]


def test_a_session_says_itself_that_it_failed_or_gave_up(shared: Instance) -> None:
    for status in ("error", "abandoned"):
        session_id = shared.spawn(
            "Sh", f"sm complete 'no luck' --status {status} > said.{status}; sleep 1000"
        )
        ended = shared.in_status(session_id["session_id"], status)
        assert (ended["completion_message"], ended["status_source"]) == ("no luck", "report")


def test_several_sessions_are_killed_at_once_and_each_failure_is_told(shared: Instance) -> None:
    first, second = (shared.spawn("Sleeper")["session_id"] for _ in range(2))
    ended = shared.run("kill", first, "ffffffff", second)
    assert ended.returncode == 3
    assert "no such session: ffffffff" in ended.stderr
    assert [shared.session(session_id)["status"] for session_id in (first, second)] == ["killed", "killed"]


def test_a_session_can_be_killed_while_it_is_starting(instance: Instance) -> None:
    instance.spawn("Sleeper", "--name", "other")
    server = tmux_server(instance)
    os.kill(server, signal.SIGSTOP)  # so that the start cannot go on
    try:
        options: dict[str, Any] = {"env": instance.env, "cwd": instance.work, "stdout": subprocess.DEVNULL}
        spawn = subprocess.Popen([SM, "spawn", "Sleeper", "--name", "slow"], **options)
        until(lambda: instance.run("status", "sleeper-slow").returncode == 0, "the session is there")
        session_id = instance.session("sleeper-slow")["session_id"]
        assert instance.session(session_id)["status"] in ("spawned", "starting")
        kill = subprocess.Popen([SM, "kill", session_id], **options)
        until(lambda: rows(instance, "SELECT 1 FROM outbox WHERE kind = 'kill'"), "the kill is recorded")
    finally:
        os.kill(server, signal.SIGCONT)
    assert (spawn.wait(30), kill.wait(30)) == (0, 0)
    ended = instance.session(session_id)
    assert ended["status"] == "killed"
    assert endings(instance, session_id) == ["killed"]
    assert ended["pid"] is None or gone(ended["pid"])


def rows(instance: Instance, query: str) -> list[Any]:
    """What a reader of the database finds, while the daemon has it open."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


@pytest.mark.parametrize("way", ["kill-server", "SIGKILL"])
def test_the_end_of_the_tmux_server_is_every_sessions_and_says_so(instance: Instance, way: str) -> None:
    ids = [instance.spawn("Sleeper")["session_id"] for _ in range(5)]
    if way == "SIGKILL":
        os.kill(tmux_server(instance), signal.SIGKILL)
    else:
        instance.tmux("kill-server")
    for session_id in ids:
        ended = instance.ended(session_id)
        assert how(ended) == ("error", None, None)
        assert ended["status_reason"] == "the tmux server is gone"
        assert endings(instance, session_id) == ["error"]
    assert instance.spawn("Sleeper")["status"] == "running"  # in a server of its own


def test_exit_codes_are_right_for_agents_that_ended_while_no_daemon_ran(instance: Instance) -> None:
    instance.sm("status")
    with (instance.work / "gate").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sessions = [spawned(instance, f"flock -s gate true; exit {code}") for code in range(10)]
        sessions.append(spawned(instance, "flock -s gate true; kill -9 $$"))
        instance.kill_daemon()
    until(lambda: all(gone(s["pid"]) for s in sessions), "all of them have ended")
    found = [how(instance.ended(s["session_id"])) for s in sessions]
    assert found[:-1] == [("completed" if code == 0 else "error", code, None) for code in range(10)]
    assert found[-1] == ("error", None, signal.SIGKILL)
    assert [endings(instance, s["session_id"]) for s in sessions] == [[status] for status, _, _ in found]


def test_a_tmux_that_does_not_answer_makes_a_status_stale_and_not_wrong(instance: Instance) -> None:
    session = spawned(instance_started(instance), "exec sleep 1000")
    server = tmux_server(instance)
    os.kill(server, signal.SIGSTOP)
    try:
        os.kill(session["pid"], signal.SIGUSR1)
        until(lambda: gone(session["pid"]), "the agent has ended")
        until(lambda: instance.session(session["session_id"])["status_stale"], "its status is marked stale")
        seen = instance.session(session["session_id"])
        assert (seen["status"], seen["exit_code"], seen["exit_signal"]) == ("running", None, None)
        trouble = instance.json("status")["trouble"]
        assert [line for line in trouble if session["session_id"] in line]
    finally:
        os.kill(server, signal.SIGCONT)
    ended = instance.ended(session["session_id"])
    assert how(ended) == ("error", None, signal.SIGUSR1)
    assert not ended["status_stale"]
    assert instance.json("status")["trouble"] == []


def instance_started(instance: Instance) -> Instance:
    instance.sm("status")
    return instance
