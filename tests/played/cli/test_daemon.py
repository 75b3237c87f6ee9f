"""`sm` with a daemon in the process of the test."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.live import health, spawn, status
from tests.played.cli.command import Sm
from tests.played.cli.test_follow import following
from tests.sim.command import Streams
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


@pytest.mark.parametrize("command", [["stop"], ["stop", "--all"], ["restart"]])
def test_daemon_stop_is_refused_in_a_container_where_the_daemon_has_no_pid(
    live: Sm, home: Path, command: list[str]
) -> None:
    inside = {"SM_SESSION_ID": "0123456789abcdef", "SM_SOCKET": f"{home}/w/s", "HOME": str(home)}
    refused = live("daemon", *command, environ=inside, code=5)
    assert refused.err == "sm: a session may not stop the daemon\nhint: only the operator may\n"


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


def test_config_edit_restarts_the_daemon_only_when_the_change_needs_it(live: Sm, home: Path) -> None:
    session, pid = spawn(live, "sleep 60"), health(live)["pid"]
    editor = home / "editor"
    added = ["limits: {max_depth: 1}\n", "tmux: {width: 90}\n", "nonsense: 1\n"]
    editor.touch(0o700)

    def edit(argv: Sequence[str]) -> tuple[int, str]:
        with open(argv[1], "a") as draft:
            draft.write(added.pop(0))
        return 0, ""

    live.tools.installed[str(editor)] = edit
    applied = live("config", "edit", environ={"EDITOR": str(editor)})
    assert applied.out == f"saved {home}/config.yaml; the daemon has applied it\n"
    assert health(live)["pid"] == pid
    done = live("config", "edit", environ={"EDITOR": str(editor)})
    after = health(live)["pid"]
    assert done.out == f"saved {home}/config.yaml; daemon restarted, pid {after}\n"
    assert after != pid
    assert status(live, session) == "running"
    broken = live("config", "edit", environ={"EDITOR": str(editor)}, code=2)
    assert "nonsense" in broken.err
    assert health(live)["pid"] == after


def test_events_follow_loses_no_event_when_daemon_restarts(live: Sm) -> None:
    live("daemon", "start")
    with following(live, "--since", "0", "--json") as follower:
        sessions = []
        for end in ("restart", "kill", "restart"):
            sessions.append(spawn(live, "sm complete"))
            if end == "kill":
                live.instance.kill_daemon()
            else:
                live("daemon", end)

        def look() -> list[dict[str, Any]] | None:
            seen = [json.loads(line) for line in follower.lines(1)]
            completed = {e["session_id"] for e in seen if e["type"] == "completed"}
            return seen if completed == set(sessions) else None

        seen = until(look, "all completions")
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))


def test_daemon_logs_follow_continues_after_log_rotation(live: Sm, home: Path) -> None:
    live("all")
    log, output = home / "state" / "log" / "daemon.log", home / "output"
    with output.open("w") as file:
        follower = live.start("daemon", "logs", "--follow", "-n", "0", "--json", streams=Streams(stdout=file))
        live.instance.wait(1)
        printed = []
        for message in ("one", "two", "three"):
            with log.open("a") as lines:
                lines.write(json.dumps({"logger": "test", "message": message}) + "\n")
            printed.append(message)
            until(lambda: messages_of_test(output) == printed, f"{message} is printed")
            log.rename(log.with_suffix(f".{message}"))
            log.touch()
        follower.kill()


def messages_of_test(output: Path) -> list[str]:
    """The messages of the test in a log. The daemon writes to it too."""
    records = map(json.loads, output.read_text().splitlines())
    return [record["message"] for record in records if record.get("logger") == "test"]


@pytest.mark.parametrize(
    ("place", "command"),
    [
        (".local/share/pipx/venvs/sm-sessions/bin/sm", "pipx uninstall sm-sessions"),
        (".local/share/uv/tools/sm-sessions/bin/sm", "uv tool uninstall sm-sessions"),
        ("clone/.venv/bin/sm", "rm LINK"),
    ],
)
def test_uninstall_names_the_command_that_removes_the_program(
    run: Sm, home: Path, place: str, command: str
) -> None:
    program, link = home / place, home / ".local" / "bin" / "sm"
    for path in (program, link):
        path.parent.mkdir(parents=True)
    program.touch(0o700)
    link.symlink_to(program)
    run.instance.command.program = str(link)
    assert json.loads(run("uninstall", "--yes", "--json").out) == {
        "removed": [], "kept": [{"path": str(link), "command": command.replace("LINK", str(link))}]
    }  # fmt: skip


def test_uninstall_leaves_the_link_of_another_sm_alone(run: Sm, home: Path) -> None:
    link, program = home / ".local" / "bin" / "sm", home / "venv" / "bin" / "sm"
    for path in (link, program):
        path.parent.mkdir(parents=True)
    program.touch(0o700)
    link.symlink_to(home / "another")
    run.instance.command.program = str(program)
    (kept,) = json.loads(run("uninstall", "--yes", "--json").out)["kept"]
    assert kept["path"] == str(program)
    assert "uninstall sm-sessions" in kept["command"]
