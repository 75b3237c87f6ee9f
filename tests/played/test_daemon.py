"""The daemon as a part of an instance: stop, restart, its log, and refused configurations and databases."""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance)


def daemons(instance: Instance) -> list[int]:
    """The pids of all daemons of this instance."""
    kernel = instance.world.kernel
    return [pid for pid, process in kernel.processes.items() if "sm.daemon" in process.argv]


# Stop and restart


def test_stop_keeps_agents_running_and_lasts_until_daemon_start(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    assert "1 agent keeps running" in instance.sm("daemon", "stop")
    assert daemons(instance) == []
    assert not instance.socket.exists()
    for arguments in (["all"], ["status"], ["spawn", "Sleeper"], ["daemon", "status"], ["events"]):
        assert "the daemon is stopped" in instance.refused(*arguments, exit_code=7)
    assert "the daemon is not running" in instance.sm("daemon", "stop")
    assert daemons(instance) == []
    instance.sm("daemon", "start")
    found = instance.session(session["session_id"])
    assert (found["status"], found["pid"]) == ("running", session["pid"])


def test_restart_keeps_agents_and_events(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    before, pid = instance.events(), instance.daemon_pid
    instance.sm("daemon", "restart")
    assert instance.daemon_pid != pid
    assert instance.events() == before
    assert instance.session(session["session_id"])["pid"] == session["pid"]
    instance.sm("daemon", "stop")
    instance.sm("daemon", "restart")  # starts a daemon and removes the mark of `stop`
    assert instance.session(session["session_id"])["status"] == "running"


def test_stop_all_ends_every_agent(instance: Instance) -> None:
    live = [instance.spawn("Sleeper") for _ in range(3)]
    done = instance.spawn("Sh", "sm complete done > out; exec sleep 1000")
    instance.in_status(done["session_id"], "completed")
    assert "4 agents ended" in instance.sm("daemon", "stop", "--all")
    assert not [s for s in (*live, done) if instance.lives(s["pid"])]
    instance.sm("daemon", "start")
    assert [s["status"] for s in instance.json("all")] == ["killed"] * 3 + ["completed"]


def test_stop_all_ends_every_agent_when_the_daemon_was_killed(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    instance.sm("daemon", "stop", "--all")
    assert not instance.lives(session["pid"])
    instance.sm("daemon", "start")
    assert instance.session(session["session_id"])["status"] == "killed"


def test_log_is_json_with_status_changes_and_is_rotated(instance: Instance) -> None:
    (instance.state / "log").mkdir(parents=True, mode=0o700)
    old = instance.state / "log" / "daemon.log"
    old.write_text("an old line\n" * 500_000)
    session_id = instance.spawn("Sh", "exit 3")["session_id"]
    instance.ended(session_id)
    lines = [json.loads(line) for line in old.read_text().splitlines()]
    assert (instance.state / "log" / "daemon.log.1").stat().st_size >= 5_000_000
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys()
        extra = line.keys() - {"time", "level", "logger", "message", "traceback"}
        assert extra <= {"sm_session", "sm_caller", "sm_signal", "sm_from", "sm_to", "sm_bug"}
    moves = [(m["sm_from"], m["sm_to"]) for m in lines if m.get("sm_session") == session_id and "sm_to" in m]
    assert moves[-2:] == [("starting", "running"), ("running", "error")]


def test_configuration_errors_are_all_reported_with_line_and_column(instance: Instance) -> None:
    instance.config.write_text(
        "default_trust: maybe\n"
        "tmux: {socket_name: test, histroy_limit: 5, width: wide}\n"
        "commands:\n"
        "  Sh: {command: sh}\n"
    )
    for arguments in (["status"], ["daemon", "start"]):
        error = instance.refused(*arguments, exit_code=2)
        for place in (":1:16:", ":2:27:", ":2:52:", ":4:17:"):
            assert f"{instance.config}{place}" in error, error
        assert "history_limit" in error
    until(lambda: not daemons(instance), "the daemon is not running")
    assert not (instance.state / "sm.db").exists()


def test_restart_keeps_the_running_daemon_when_the_configuration_is_invalid(instance: Instance) -> None:
    instance.sm("status")
    pid = instance.daemon_pid
    instance.config.write_text("default_trust: maybe\n")
    assert ":1:16:" in instance.refused("daemon", "restart", exit_code=2)
    assert instance.daemon_pid == pid


def spoil(database: Path) -> str:
    with database.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xa5" * 20_000)
    return "is damaged"


def make_newer(database: Path) -> str:
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA user_version = 99")
    return "has version 99"


def backup_with_sessions(instance: Instance, count: int) -> Path | None:
    for backup in instance.state.glob("sm.db.*.backup"):
        with closing(sqlite3.connect(f"file:{backup}?mode=ro", uri=True)) as db:
            if db.execute("SELECT count(*) FROM sessions").fetchone() == (count,):
                return backup
    return None


@pytest.mark.parametrize("lose", [lambda path: os.truncate(path, 0), os.unlink], ids=["empty", "missing"])
def test_empty_or_missing_database_is_refused_until_a_backup_is_restored(
    instance: Instance, lose: Callable[[Path], None]
) -> None:
    session = instance.spawn("Sleeper")
    instance.sm("daemon", "restart")  # each daemon makes a backup after its start
    backup = until(lambda: backup_with_sessions(instance, 1), "a backup has the session")
    saved = backup.read_bytes()
    late = instance.spawn("Sleeper")
    instance.kill_daemon()
    lose(instance.state / "sm.db")
    for command in (["daemon", "start"], ["all"]):
        error = instance.refused(*command, exit_code=7)
        assert f"the newest backup is {backup}" in error
        assert "sm daemon restore-backup" in error
        assert "sm daemon start --new" in error
    assert backup.read_bytes() == saved
    assert f"restored {backup} (1 session)" in instance.sm("daemon", "restore-backup")
    assert [s["session_id"] for s in instance.json("all")] == [session["session_id"]]
    assert instance.session(session["session_id"])["pid"] == session["pid"]
    os.kill(late["pid"], signal.SIGKILL)  # the restored database does not know this agent


def test_missing_database_is_refused_while_an_agent_runs_until_start_new(instance: Instance) -> None:
    session = instance.spawn("Sleeper")
    instance.kill_daemon()
    shutil.rmtree(instance.state)
    error = instance.refused("all", exit_code=7)
    assert f"but an agent of it still runs (pid {session['pid']})" in error
    assert "no backup exists" in error
    assert "daemon started" in instance.sm("daemon", "start", "--new")
    assert instance.json("all") == []
    error = instance.refused("daemon", "start", "--new", exit_code=4)
    assert "the daemon is already running" in error
    instance.sm("daemon", "stop")
    error = instance.refused("daemon", "start", "--new", exit_code=4)
    assert "is intact" in error
    instance.sm("daemon", "start")
    os.kill(session["pid"], signal.SIGKILL)


@pytest.mark.parametrize("defect", [spoil, make_newer])
def test_damaged_or_newer_database_is_refused_and_not_changed(instance: Instance, defect: Any) -> None:
    for _ in range(3):
        instance.spawn("Sleeper", "x" * 5000)
    instance.sm("daemon", "stop")
    database = instance.state / "sm.db"
    whole = database.read_bytes()
    problem = defect(database)
    before = database.read_bytes()
    for _ in range(2):
        error = instance.refused("daemon", "start", exit_code=7)
        assert problem in error
        assert str(database) in error
        assert "hint: " in error or '"hint":"' in error
    assert database.read_bytes() == before
    until(lambda: not daemons(instance), "the daemon is not running")
    database.write_bytes(whole)
    instance.sm("daemon", "start")
    assert [s["status"] for s in instance.json("all")] == ["running"] * 3
