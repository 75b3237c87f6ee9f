"""Recovery after the daemon, tmux or the machine was down, and reports spooled meanwhile."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.integration.ended_agents import end_events
from tests.sim.stage import Instance, until

TIMES = {"uptime_s", "last_activity_at"}

instance = context_fixture("function", Instance)


def as_session(instance: Instance, session: dict[str, Any]) -> dict[str, str]:
    return dict(instance.as_session(session["session_id"]))


@contextmanager
def stopped_tmux(instance: Instance) -> Iterator[None]:
    """Stop the terminal server, so that it exists but does not answer."""
    instance.world.server.is_deaf = True
    try:
        yield
    finally:
        instance.world.server.is_deaf = False


def state(instance: Instance) -> dict[str, Any]:
    """All state that must not change when the daemon is killed."""
    sessions = instance.json("all")
    return {
        "sessions": [{k: v for k, v in s.items() if k not in TIMES} for s in sessions],
        "events": instance.events(),
        "checkpoints": [instance.json("checkpoints", s["session_id"]) for s in sessions],
    }


def test_state_and_agents_are_unchanged_when_the_daemon_is_killed(instance: Instance) -> None:
    parent = instance.spawn("Sleeper", "--name", "parent")
    child = instance.spawn("Sleeper", "--parent", parent["session_id"])
    done = instance.spawn("Sh", "exit 4")["session_id"]
    killed = instance.spawn("Sleeper")["session_id"]
    instance.sm("kill", killed, "--force")
    instance.ended(done)
    for n in range(3):
        instance.sm("checkpoint", f"step {n}", "--metadata", f"n={n}", env=as_session(instance, child))
    instance.sm("complete", "early", env=as_session(instance, child))
    pids = [s["pid"] for s in (parent, child)]
    before = state(instance)
    for _ in range(3):
        instance.kill_daemon()
        assert state(instance) == before
    assert all(instance.lives(pid) for pid in pids)
    instance.sm("kill", parent["session_id"])
    assert instance.session(parent["session_id"])["status"] == "killed"


def test_sessions_are_in_error_when_the_tmux_server_ended_while_no_daemon_ran(instance: Instance) -> None:
    sessions = [instance.spawn("Sleeper") for _ in range(3)]
    instance.kill_daemon()
    instance.world.server.kill()
    assert not [s for s in sessions if instance.lives(s["pid"])]
    for session in sessions:
        found = instance.session(session["session_id"])
        assert (found["status"], found["exit_code"]) == ("error", None)
        assert found["status_reason"] == "the tmux server has ended while the daemon was not running"
        assert end_events(instance, session["session_id"]) == ["error"]


def test_session_is_in_error_when_its_terminal_was_closed_while_no_daemon_ran(instance: Instance) -> None:
    closed, kept = (instance.spawn("Sleeper") for _ in range(2))
    instance.kill_daemon()
    instance.world.server.close(closed["tmux_session"])
    assert not instance.lives(closed["pid"])
    found = instance.session(closed["session_id"])
    assert (found["status"], found["status_reason"]) == (
        "error",
        "the terminal was closed while the daemon was not running",
    )
    assert instance.session(kept["session_id"])["status"] == "running"


def test_first_answer_after_a_restart_includes_exit_signals_of_agents(instance: Instance) -> None:
    sessions = [instance.spawn("Sleeper", "x") for _ in range(3)]
    instance.kill_daemon()
    for number, session in zip((signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1), sessions, strict=True):
        os.kill(session["pid"], number)
    instance.start_daemon()
    listed = {s["session_id"]: (s["status"], s["exit_signal"]) for s in instance.json("all")}
    assert [listed[s["session_id"]] for s in sessions] == [("error", 9), ("error", 15), ("error", 10)]


def test_sessions_are_in_error_with_a_reason_after_a_reboot(instance: Instance) -> None:
    live = [instance.spawn("Sleeper") for _ in range(2)]
    done = instance.spawn("Sh", "exit 0")["session_id"]
    instance.ended(done)
    holder = instance.daemon_pid
    instance.kill_daemon()
    instance.world.server.kill()
    assert not [s for s in live if instance.lives(s["pid"])]
    # The state after a reboot: a socket without a listener, a lock and processes of the last boot. Another process
    # has the pid of one of them.
    assert instance.socket.exists()
    (instance.state / "sm.lock").write_text(f"{holder}\n")
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE sessions SET pid_started = 'another-boot/' || substr(pid_started, 38)")
        db.execute(
            "UPDATE sessions SET pid = ? WHERE id = ?", (instance.world.shell.pid, live[0]["session_id"])
        )
    for session in live:
        found = instance.session(session["session_id"])
        assert found["status"] == "error"
        assert found["status_reason"] == "the machine restarted while the daemon was not running"
        assert end_events(instance, session["session_id"]) == ["error"]
    assert instance.session(done)["status"] == "completed"
    assert instance.spawn("Sleeper")["status"] == "running"


def test_sessions_are_stale_but_running_when_tmux_does_not_answer_at_the_start(instance: Instance) -> None:
    lives, dies = (instance.spawn("Sleeper") for _ in range(2))
    instance.kill_daemon()
    with stopped_tmux(instance):
        os.kill(dies["pid"], signal.SIGUSR2)
        assert not instance.lives(dies["pid"])
        sessions = {s["session_id"]: s for s in instance.json("all")}
        assert [(s["status"], s["status_stale"]) for s in sessions.values()] == [("running", True)] * 2
        assert "running?" in instance.sm("all")
        trouble = instance.json("status")["trouble"]
        assert {s for s in sessions if any(s in line for line in trouble)} == set(sessions)
    ended = instance.ended(dies["session_id"])
    assert (ended["status"], ended["exit_signal"], ended["status_stale"]) == ("error", signal.SIGUSR2, False)
    other = instance.session(lives["session_id"])
    assert (other["status"], other["status_stale"], other["pid"]) == ("running", False, lives["pid"])
    assert instance.json("status")["trouble"] == []
    os.kill(lives["pid"], signal.SIGUSR1)  # the agent is watched again
    assert instance.ended(lives["session_id"])["exit_signal"] == signal.SIGUSR1


def test_status_shows_that_tmux_does_not_answer_until_it_answers_again(instance: Instance) -> None:
    instance.spawn("Sleeper")
    assert instance.json("status")["trouble"] == []
    with stopped_tmux(instance):
        trouble = until(lambda: instance.json("status")["trouble"], "the status shows the problem")
        assert trouble[0].startswith("tmux did not respond")
        assert "Problem:      tmux did not respond" in instance.sm("status")
    until(lambda: instance.json("status")["trouble"] == [], "the status shows no problem")


def test_daemon_stops_when_tmux_does_not_answer(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    with stopped_tmux(instance):
        assert "1 agent keeps running" in instance.sm("daemon", "stop")
    instance.sm("daemon", "start")
    assert instance.session(session["session_id"])["pid"] == session["pid"]


def test_reports_are_spooled_while_no_daemon_runs_and_applied_at_the_next_start(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    session_id, env = session["session_id"], as_session(instance, session)
    instance.sm("daemon", "stop")
    first = instance.now().timestamp()
    for arguments in (
        ("checkpoint", "found it", "--metadata", "files=3"),
        ("note", "looking closer"),
        ("checkpoint", "fixed it"),
        ("complete", "all done"),
    ):
        instance.wait(0.01)  # else all have the same time
        ended = instance.run(*arguments, env=env)
        assert (ended.returncode, ended.stdout) == (0, "recorded; the daemon is not available\n"), ended
    last = instance.now().timestamp()
    assert "is stopped" in instance.refused("me", exit_code=7, env=env)  # only reports are spooled
    assert "is stopped" in instance.refused("all", exit_code=7)
    assert instance.run("daemon", "status").returncode != 0
    instance.wait(1)
    instance.sm("daemon", "start")
    found = instance.session(session_id)
    assert (found["status"], found["note"], found["completion_message"]) == (
        "completed",
        "looking closer",
        "all done",
    )
    events = [e for e in instance.events() if e["type"] not in ("spawned", "started")]
    assert [e["type"] for e in events] == ["checkpoint", "note", "checkpoint", "completed"]
    checkpoints = instance.json("checkpoints", session_id)
    assert [(c["message"], c["metadata"]) for c in checkpoints] == [
        ("found it", {"files": "3"}),
        ("fixed it", {}),
    ]
    for at in [e["timestamp"] for e in events] + [found["completed_at"]]:
        assert first - 0.001 <= datetime.fromisoformat(at).timestamp() <= last
    assert list((instance.state / "spool" / session_id).iterdir()) == []
    instance.kill_daemon()
    assert [e["seq"] for e in instance.events()] == [1, 2, 3, 4, 5, 6]  # applied once


def test_spooled_report_is_applied_once_when_a_crash_left_its_file(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "stop")
    instance.sm("checkpoint", "once", env=as_session(instance, session))
    (spooled,) = (instance.state / "spool" / session["session_id"]).iterdir()
    text = spooled.read_text()
    instance.sm("daemon", "start")
    assert len(instance.json("checkpoints", session["session_id"])) == 1
    instance.kill_daemon()
    spooled.write_text(text)  # the state after a crash between commit and removal
    assert len(instance.json("checkpoints", session["session_id"])) == 1
    assert not spooled.exists()


def test_spooled_report_with_a_wrong_token_is_dropped(instance: Instance) -> None:
    session, other = (instance.spawn("Sleeper") for _ in range(2))
    instance.sm("daemon", "stop")
    env = as_session(instance, session)
    instance.sm(
        "complete", "forged", env={**env, "SM_TOKEN_FILE": as_session(instance, other)["SM_TOKEN_FILE"]}
    )
    unsigned = {**env, "SM_TOKEN_FILE": "/no/such/file"}
    assert "SM_TOKEN_FILE" in instance.refused("complete", "unsigned", exit_code=7, env=unsigned)
    instance.sm("daemon", "start")
    assert instance.session(session["session_id"])["status"] == "running"
    assert list((instance.state / "spool" / session["session_id"]).iterdir()) == []
    assert "without the session's token" in (instance.state / "log" / "daemon.log").read_text()


def test_invalid_spool_files_are_removed_without_effect(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "stop")
    env = as_session(instance, session)
    instance.sm("checkpoint", "good", env=env)
    spool = instance.state / "spool" / session["session_id"]
    (good,) = spool.iterdir()
    value = json.loads(good.read_text())
    secret = instance.home / "secret"
    secret.write_text(json.dumps(value))

    def name(number: int) -> Path:
        return Path(spool, f"{number}-00000000.json")

    wrong: list[Any] = [
        *(None, 5, [], {}, "text", {**value, "token": 5}, {**value, "key": None}, {**value, "body": 7}),
        *({**value, "emitted_at": at} for at in ("yesterday", "2026-01-01T00:00:00", 5, None)),
        *({**value, "action": action} for action in ("kill", 5, None)),
        {**value, "key": "k1", "body": {"message": "x", "metadata": "no dict"}},
        {**value, "key": "k2", "body": {"message": "\x1b[201~"}},
        {**value, "key": "k4", "action": "complete", "body": {"status": "killed"}},
        *(
            {**value, "action": "confirm", "body": {"message_ids": ids}}
            for ids in (None, 5, "1", [None], ["1"], [True], [-1], [10**30], [1], [*range(1, 99)])
        ),
    ]
    for number, content in enumerate(wrong, 100):
        name(number).write_text(json.dumps(content))
    name(1).write_text(good.read_text()[:40])  # half-written
    name(2).write_bytes(os.urandom(100))
    name(3).write_bytes(b"[" * 100_000)
    name(4).write_bytes(b" " * 2_000_000)
    name(5).symlink_to(secret)
    name(6).symlink_to("/no/such/file")
    name(7).mkdir()
    os.mkfifo(name(8))
    (spool / "not-a-report").write_text("x")
    (spool.parent / "ffffffff").mkdir()
    (spool.parent / "ffffffff" / "1-00000000.json").write_text(good.read_text())
    (spool.parent / "file").write_text("x")
    (spool.parent / "link").symlink_to(spool)
    instance.sm("daemon", "start")
    assert [c["message"] for c in instance.json("checkpoints", session["session_id"], "--limit", "200")] == [
        "good"
    ]
    assert instance.session(session["session_id"])["status"] == "running"
    assert [e["type"] for e in instance.events()] == ["spawned", "started", "checkpoint"]
    assert secret.exists()
    assert {p.name for p in spool.iterdir()} == {"not-a-report", name(7).name}


def test_failing_spooled_report_stops_neither_the_daemon_nor_other_reports(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "stop")
    instance.sm("checkpoint", "good", env=as_session(instance, session))
    spool = instance.state / "spool" / session["session_id"]
    (good,) = spool.iterdir()
    value = json.loads(good.read_text())
    deep: dict[str, Any] = {}
    for _ in range(400):  # too deep to be stored
        deep = {"deeper": deep}

    def broken(number: int) -> None:
        body = {"message": "x", "metadata": deep}
        emitted_at = {"emitted_at": "2026-01-01T00:00:00Z"}  # sorts before the other reports
        text = json.dumps({**value, **emitted_at, "key": f"k{number}", "body": body})
        (spool / f"{number}-00000000.json").write_text(text)

    broken(1)
    (spool / "2-00000000.json").write_text(json.dumps({**value, "emitted_at": "0001-01-01T00:00:00+14:00"}))
    instance.sm("daemon", "start")
    assert [c["message"] for c in instance.json("checkpoints", session["session_id"], "--limit", "200")] == [
        "good"
    ]
    assert list(spool.iterdir()) == []
    broken(3)
    until(lambda: not list(spool.iterdir()), "the running daemon has read the report")
    log = (instance.state / "log" / "daemon.log").read_text()
    assert log.count("failed to carry out a spooled report") == 2
    assert "failed to run the upkeep" not in log and '"traceback"' in log


def test_partial_spool_files_are_removed_after_a_minute(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "stop")
    instance.sm("note", "x", env=as_session(instance, session))
    spool = instance.state / "spool" / session["session_id"]
    old, fresh, foreign = spool / ".1-00000000.json", spool / ".2-00000000.json", spool / ".config"
    for path in (old, fresh, foreign):
        path.write_text("{")
    now_s = instance.now().timestamp()
    for path, age_s in ((old, 61), (foreign, 61), (fresh, 0)):
        os.utime(path, (0, now_s - age_s))
    instance.sm("daemon", "start")
    assert set(spool.iterdir()) == {fresh, foreign}


def test_future_time_of_a_spooled_report_is_not_stored(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "stop")
    instance.sm("note", "from the future", env=as_session(instance, session))
    (spooled,) = (instance.state / "spool" / session["session_id"]).iterdir()
    spooled.write_text(json.dumps({**json.loads(spooled.read_text()), "emitted_at": "2999-01-01T00:00:00Z"}))
    instance.sm("daemon", "start")
    (event,) = instance.events("--type", "note")
    assert event["timestamp"] < "2999"


def test_command_of_a_session_never_starts_the_daemon(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    assert "no daemon is running" in instance.refused("me", exit_code=7, env=as_session(instance, session))
    assert instance.run("daemon", "status").returncode == 7


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_prompt_is_typed_once_when_the_daemon_restarts(how: str) -> None:
    with Instance(
        '  Reader: {command: [sh, -c, "while read -r x; do echo $x >> typed; done"], prompt: tty}'
    ) as instance:
        session = instance.spawn("Reader", "hello")
        typed = instance.work / "typed"
        until(typed.exists, "the prompt is typed")
        for _ in range(2):
            if how == "stop":
                instance.sm("daemon", "restart")
            else:
                instance.kill_daemon()
                instance.sm("status")
        instance.type_line(session, "end")
        until(lambda: typed.read_text().endswith("end\n"), "the line is read")
        assert typed.read_text() == "hello\nend\n"
        assert instance.json("status")["dead_letters"] == 0
