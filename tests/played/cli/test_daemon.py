"""`sm` with a daemon in the process of the test."""

import json
from pathlib import Path

import pytest

from tests.cli.live import health, spawn, status
from tests.played.cli.command import Sm
from tests.sim.stage import until

# The prompt of an agent is the script that the agent runs.
CONFIG = """
default_trust: direct
commands:
  Sh: {command: [sh, -c], prompt: argv}
"""


@pytest.fixture
def live(run: Sm, home: Path) -> Sm:
    """An instance without a daemon: the first command starts the daemon."""
    (home / "config.yaml").write_text(CONFIG)
    return run


def test_stopped_daemon_stays_stopped_until_daemon_start(live: Sm) -> None:
    assert live("daemon", "stop").out == "the daemon is not running\n"
    assert live("all", code=7).err == "sm: the daemon is stopped\nhint: sm daemon start\n"
    assert live("daemon", "start").out.startswith("daemon started, pid ")
    session = spawn(live, "sleep 60")
    pid = health(live)["pid"]
    assert live("daemon", "stop").out == f"daemon stopped, pid {pid}; 1 agent keeps running\n"
    assert not live.instance.lives(pid)
    assert "is stopped" in live("daemon", "status", code=7).err
    assert "is stopped" in live("all", code=7).err
    assert live("daemon", "restart").out.startswith("daemon restarted, pid ")
    assert status(live, session) == "running"


def test_daemon_start_removes_the_stopped_file_of_a_failed_stop(live: Sm, home: Path) -> None:
    live("daemon", "start")
    (home / "state" / "stopped").touch()
    assert "already running" in live("daemon", "start").out
    assert not (home / "state" / "stopped").exists()


def test_daemon_stop_all_ends_agents_when_no_daemon_runs(live: Sm) -> None:
    session = spawn(live, "sleep 60")
    agent = json.loads(live("status", session, "--json").out)["pid"]
    live("daemon", "stop")
    assert live.instance.lives(agent)
    assert live("daemon", "stop", "--all").out.endswith("; 1 agent ended\n")
    assert not live.instance.lives(agent)
    assert "is stopped" in live("all", code=7).err


def test_daemon_stop_is_refused_when_an_agent_calls_the_command(live: Sm, home: Path) -> None:
    session = spawn(live, "sm daemon stop; echo code $?; sleep 60")
    until(lambda: "code 5" in live("output", session).out, "the exit code is printed")
    assert not (home / "state" / "stopped").exists()
    assert health(live)["sessions"] == 1


def test_next_command_restarts_a_killed_daemon(live: Sm) -> None:
    session = spawn(live, "sleep 60")
    live.instance.kill_daemon()
    assert status(live, session) == "running"


def test_uninstall_is_refused_while_agents_run_and_keeps_everything(live: Sm, home: Path) -> None:
    session = spawn(live, "sleep 60")
    refused = live("uninstall", "--yes", code=4)
    assert f"1 agent still running: sh-{session}\n" in refused.err
    assert "sm uninstall --kill-agents" in refused.err
    assert status(live, session) == "running"
    assert "sm uninstall --yes" in live("uninstall", "--kill-agents", code=2).err


def test_uninstall_changes_nothing_when_the_answer_is_no(live: Sm, home: Path) -> None:
    live("daemon", "start")
    shown = live.screen("uninstall", typed="n\n", code=4, width=200)
    assert f"Will be deleted:\n  {home}/state\n" in shown
    assert "Remove sm? [y/N] " in shown
    assert health(live)["sessions"] == 0


def test_session_is_spawned_shown_and_killed(live: Sm, home: Path) -> None:
    script = "echo 'its output'; sleep 1; sm note Waiting; sm checkpoint 'Half (1/2)' --metadata a=1; exec sleep 60"
    done = live("spawn", "Sh", script, "--name", "one", "--working-dir", str(home))
    session = done.out.split("(")[1].partition(")")[0]
    assert done.out == f"Spawned sh-one ({session}) in tmux session command-{session}\n"
    until(lambda: "Half" in live("checkpoints", "sh-one").out, "the checkpoint is recorded")
    assert f"sh-one ({session}) | running | " in live("children").out
    assert live("children").out.endswith("| Waiting\n")
    assert "its output\n" in live("output", session[:6]).out
    assert f"Directory: {home}\n" in live("status", session).out
    assert "Done: 50%" in live("progress", session).out
    events = live("events", session).out
    assert f"] spawned: Session sh-one ({session}) started\n" in events
    assert live("tail", session, "-n", "1").out.endswith('] * checkpoint: Session sh-one - "Half (1/2)"\n')
    assert live("kill", "sh-one").out == "Killed sh-one\n"
    assert "| killed" in live("all").out
    live("kill", "sh-one", code=4)


def test_reports_of_an_agent_are_kept_while_daemon_is_stopped(live: Sm, home: Path) -> None:
    go = home / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.1; done; sm checkpoint One; sm complete Two; sleep 60"
    session = spawn(live, script)
    live("daemon", "stop")
    go.touch()
    spool = home / "state" / "spool" / session
    until(lambda: len(list(spool.glob("*.json"))) == 2, "both reports are in the spool")
    live("daemon", "start")
    assert "One" in live("checkpoints", session).out
    assert status(live, session) == "completed"
    assert list(spool.glob("*")) == []


def test_daemon_logs_prints_text_or_json(live: Sm) -> None:
    session = spawn(live, "true")
    until(lambda: status(live, session) == "completed", "the session is completed")
    assert f"sm_session={session}" in live("daemon", "logs", "-n", "1000").out
    records = [json.loads(line) for line in live("daemon", "logs", "--json", "-n", "2").out.splitlines()]
    assert len(records) == 2
    assert {"time", "level", "logger", "message"} <= set(records[0])


def test_daemon_logs_prints_no_control_characters(run: Sm, state: Path) -> None:
    (state / "log").mkdir(exist_ok=True)
    record = {"time": "2026-01-27T15:10:00Z", "message": "a\x1b[31m", "sm_\x1b]0;x\x07": "b\x1b"}
    broken = 'not JSON \x1b[31m\x07 "\x9b'
    (state / "log" / "daemon.log").write_text(f"{json.dumps(record)}\n{broken}\n")
    text = run("daemon", "logs").out
    assert all(part.isprintable() for part in text.splitlines()), repr(text)
    printed = run("daemon", "logs", "--json").out
    assert all(part.isprintable() for part in printed.splitlines()), repr(printed)
    assert [json.loads(part) for part in printed.splitlines()] == [record, {"message": broken}]
