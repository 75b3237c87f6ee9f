"""Restarts of crashed sessions through the command, with played programs."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sm.client.http import new_key
from sm.errors import IllegalState
from tests.integration.ended_agents import ENDED, rows
from tests.sim.stage import BOX, Instance, Stage, until

MORE = """
  Fragile: {command: [sh, -c], restart: on-failure}
  Once: {command: [sh, -c], restart: on-failure, restart_max: 1}
"""
# Appends a line to the file RUNS at each start, then runs its argument.
COUNTED = "echo run >> runs-{name}; {then}"


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance(MORE) as made:
        yield made


def counted(name: str, then: str) -> str:
    return COUNTED.format(name=name, then=then)


def runs(instance: Instance, name: str) -> int:
    path = instance.work / f"runs-{name}"
    return len(path.read_text().splitlines()) if path.exists() else 0


def crash(instance: Instance, session: dict[str, Any], name: str) -> dict[str, Any]:
    """Kill the process of a session that has counted its first run; return the session once it waits."""
    until(lambda: runs(instance, name) == 1, "the program runs")
    os.kill(session["pid"], signal.SIGKILL)
    return waiting(instance, session["session_id"])


def waiting(instance: Instance, session_id: str) -> dict[str, Any]:
    """The session, once it waits for its restart."""

    def look() -> dict[str, Any] | None:
        session = instance.session(session_id)
        restarts = session["restarts"]
        return session if restarts and restarts["next_at"] else None

    return until(look, "the session waits for its restart")


def again(instance: Instance, session_id: str, pid: int) -> dict[str, Any]:
    """The session, once another process than `pid` runs."""

    def look() -> dict[str, Any] | None:
        session = instance.session(session_id)
        return session if session["pid"] not in (None, pid) else None

    return until(look, "another process runs")


def hurry(instance: Instance) -> None:
    """Make every restart due, with a SIGKILL of the daemon in between."""
    instance.kill_daemon()
    make_due(instance)
    instance.sm("daemon", "start")


def make_due(instance: Instance) -> None:
    """Make every restart due, while no daemon runs."""
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE timers SET due_at = '2026-01-01T00:00:00.000Z' WHERE kind = 'restart'")


def ends(instance: Instance, session_id: str) -> list[str]:
    return [e["type"] for e in instance.events(session_id) if e["type"] in ENDED]


def test_crashed_program_starts_again_with_its_prompt(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("again", "exec sleep 1000"), "--name", "again")
    assert session["restarts"]["count"] == 0
    crashed = crash(instance, session, "again")
    assert crashed["status"] == "starting"
    assert crashed["status_reason"] == "restart 1 of 3 in 5 s (signal 9)"
    assert (crashed["pid"], crashed["exit_signal"], crashed["restarts"]["count"]) == (None, 9, 1)
    now = again(instance, session["session_id"], session["pid"])
    assert (now["status"], now["restarts"]["next_at"], now["exit_signal"]) == ("running", None, None)
    assert runs(instance, "again") == 2
    assert not ends(instance, session["session_id"])
    instance.sm("kill", session["session_id"])
    assert ends(instance, session["session_id"]) == ["killed"]


# Giving up


def test_session_is_given_up_with_one_end_when_its_restarts_are_used_up(instance: Instance) -> None:
    parent = instance.spawn("Sleeper", "--name", "chief")["session_id"]
    child = instance.spawn("Once", counted("looped", "exit 3"), "--parent", parent)["session_id"]
    until(lambda: instance.session(child)["status"] in ENDED, "sm gives up")
    ended = instance.session(child)
    assert (ended["status"], ended["exit_code"]) == ("error", 3)
    assert ended["status_reason"] == (
        "the process ended with exit code 3; gave up after 1 restart in 15 minutes"
    )
    assert (ended["restarts"]["next_at"], ended["restarts"]["total"]) == (None, 1)
    assert runs(instance, "looped") == 2
    events = instance.events(child)
    assert [e["type"] for e in events if e["type"] in ENDED] == ["error"]
    warning, over = (e for e in events if e["type"] == "warning")
    assert over["metadata"]["ended"] is True
    assert warning["metadata"] | {"next_at": ""} == {
        "kind": "crash_loop",
        "value": 1,
        "limit": 1,
        "evidence": "restart 1 of 1 in 5 s (exit code 3)",
        "next_at": "",
        "exit_code": 3,
        "exit_signal": None,
        "ended": False,
        "told": True,
    }
    query = f"SELECT kind, recipient, text FROM notices WHERE session_id = '{child}' ORDER BY id"  # noqa: S608
    told = rows(instance, query)
    assert [(kind, to) for kind, to, _ in told] == [
        ("warning", parent),
        ("warning", None),
        ("ending", parent),
    ]
    assert 'has crashed: "restart 1 of 1 in 5 s (exit code 3)"; look with: sm output' in told[0][2]
    status = instance.sm("status", child)
    assert "Restarts:  1 of 1 in 15 minutes, 1 in all (last end: exit code 3)" in status
    instance.sm("kill", parent)


def test_restored_session_has_all_its_restarts_again(instance: Instance) -> None:
    session_id = instance.spawn("Once", counted("restored", "exit 3"))["session_id"]
    until(lambda: instance.session(session_id)["status"] in ENDED, "sm gives up")
    instance.run("restore", session_id)
    assert waiting(instance, session_id)["restarts"] | {"next_at": ""} == {
        "count": 1,
        "max": 1,
        "next_at": "",
        "total": 1,
        "exit_code": 3,
        "exit_signal": None,
    }
    instance.sm("kill", session_id)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [("Fragile", ("--restart", "never")), ("Sh", ())],
    ids=["overridden", "default"],
)
def test_crash_ends_a_session_that_is_never_restarted(
    instance: Instance, kind: str, arguments: tuple[str, ...]
) -> None:
    session_id = instance.spawn(kind, "exit 3", *arguments)["session_id"]
    ended = instance.ended(session_id)
    assert (ended["status"], ended["restarts"]) == ("error", None)


def test_spawn_refuses_an_unknown_policy(instance: Instance) -> None:
    error = instance.refused("spawn", "Sh", "true", "--restart", "always", exit_code=2)
    assert "invalid value for --restart: 'always'" in error


def test_session_of_a_missing_program_is_not_restarted(instance: Instance) -> None:
    instance.config.write_text(
        instance.config.read_text() + "  Missing: {command: [./missing], restart: on-failure}\n"
    )
    instance.sm("daemon", "restart")
    ended = instance.run("spawn", "Missing", "--json")
    assert ended.returncode == 9
    (session,) = [s for s in instance.json("all") if s["agent_type"] == "Missing"]
    assert (session["status"], session["restarts"]["total"]) == ("error", 0)


# Ends that are no crash


def test_completed_session_whose_process_crashes_later_is_not_restarted(instance: Instance) -> None:
    session = instance.spawn("Fragile", "sm complete done; exec sleep 1000")
    until(lambda: instance.session(session["session_id"])["status"] == "completed", "it has completed")
    os.kill(session["pid"], signal.SIGKILL)
    until(lambda: instance.session(session["session_id"])["exit_signal"] == 9, "its end is recorded")
    assert instance.session(session["session_id"])["status"] == "completed"


def test_paused_session_that_crashes_ends(instance: Instance) -> None:
    session = instance.spawn("Fragile", "exec sleep 1000")
    instance.sm("pause", session["session_id"])
    os.kill(session["pid"], signal.SIGKILL)
    assert instance.ended(session["session_id"])["status"] == "error"


# While it waits


def test_session_is_live_while_it_waits_and_its_children_keep_it(instance: Instance) -> None:
    grandparent = instance.spawn("Sleeper", "--name", "above")["session_id"]
    parent = instance.spawn("Fragile", "exec sleep 1000", "--parent", grandparent, "--name", "mid")
    child = instance.spawn("Sleeper", "--parent", parent["session_id"])["session_id"]
    os.kill(parent["pid"], signal.SIGKILL)
    waiting(instance, parent["session_id"])
    assert instance.session(child)["parent_session_id"] == parent["session_id"]
    refused = instance.refused("spawn", "Fragile", "true", "--name", "mid", exit_code=2)
    assert "is already used by a live session" in refused
    assert "restored" in instance.refused("restore", parent["session_id"], exit_code=4)
    again(instance, parent["session_id"], parent["pid"])
    assert instance.session(child)["parent_session_id"] == parent["session_id"]
    instance.sm("kill", grandparent, "--tree")


def test_killed_session_does_not_start_again(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("killed", "exec sleep 1000"))
    crash(instance, session, "killed")
    instance.sm("kill", session["session_id"])
    ended = instance.session(session["session_id"])
    assert (ended["status"], ended["exit_signal"], ended["restarts"]["next_at"]) == ("killed", 9, None)
    assert rows(instance, "SELECT * FROM timers WHERE kind = 'restart'") == []
    hurry(instance)
    assert rows(instance, "SELECT * FROM timers WHERE kind = 'restart'") == []
    assert runs(instance, "killed") == 1
    assert ends(instance, session["session_id"]) == ["killed"]


def test_paused_session_starts_again_when_it_resumes(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("held", "exec sleep 1000"))
    session_id = session["session_id"]
    crash(instance, session, "held")
    assert instance.json("pause", session_id)["warnings"] == []  # no program runs
    hurry(instance)
    for _ in range(3):
        assert instance.session(session_id)["pid"] is None
        instance.kill_daemon()
        instance.sm("daemon", "start")
    assert runs(instance, "held") == 1
    instance.sm("resume", session_id)
    again(instance, session_id, session["pid"])
    assert runs(instance, "held") == 2
    instance.sm("kill", session_id)


# Crashes of everything else


def test_restart_is_carried_out_once_when_the_daemon_is_killed_meanwhile(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("crashes", "exec sleep 1000"))
    crash(instance, session, "crashes")
    for _ in range(3):
        instance.kill_daemon()
        instance.sm("daemon", "start")
    hurry(instance)
    now = again(instance, session["session_id"], session["pid"])
    instance.kill_daemon()
    instance.sm("daemon", "start")
    assert instance.session(session["session_id"])["pid"] == now["pid"]
    assert (runs(instance, "crashes"), now["restarts"]["total"]) == (2, 1)
    instance.sm("kill", session["session_id"])


def test_crash_while_no_daemon_runs_is_followed_by_a_restart(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("alone", "exec sleep 1000"))
    until(lambda: runs(instance, "alone") == 1, "the program runs")
    instance.kill_daemon()
    os.kill(session["pid"], signal.SIGKILL)
    instance.sm("daemon", "start")
    now = again(instance, session["session_id"], session["pid"])
    assert (now["restarts"]["total"], now["restarts"]["exit_signal"]) == (1, 9)
    instance.sm("kill", session["session_id"])


# Agents with turns. The test plays the hooks of claude.

SETTINGS = "daemon: {ignore_evidence: [screen, title]}\n"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(SETTINGS, BOX) as made:
        yield made


def test_restart_waits_while_the_account_is_parked(stage: Stage) -> None:
    agent = stage.agent("Plain", "--restart", "on-failure")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    pid = stage.in_status(agent.id, "running")["pid"]
    stage.sm("pause", "--soft", "--account", stage.json("accounts")[0]["name"])
    os.kill(pid, signal.SIGKILL)
    waiting(stage, agent.id)
    hurry(stage)
    until(lambda: stage.session(agent.id)["restarts"]["next_at"] is None, "the restart is due")
    for _ in range(2):
        held = stage.session(agent.id)
        assert (held["status"], held["pid"]) == ("starting", None)
        assert held["status_reason"].startswith("restart 1 of 3 waits: parked")
        stage.kill_daemon()
        stage.sm("daemon", "start")
    stage.sm("resume", "--account", stage.json("accounts")[0]["name"])
    again(stage, agent.id, pid)
    stage.sm("kill", agent.id)
    assert ends(stage, agent.id) == ["killed"]


def test_restart_waits_for_the_end_of_the_pause_of_its_account(stage: Stage) -> None:
    agent = stage.agent("Plain", "--restart", "on-failure")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    pid = stage.in_status(agent.id, "running")["pid"]
    stage.sm("pause", "--account", stage.json("accounts")[0]["name"])
    os.kill(pid, signal.SIGKILL)
    waiting(stage, agent.id)
    stage.kill_daemon()
    stage.sm("daemon", "start")
    assert stage.session(agent.id)["pid"] is None
    stage.sm("resume", "--account", stage.json("accounts")[0]["name"])
    again(stage, agent.id, pid)


def test_session_that_is_killed_while_its_restart_is_parked_does_not_start(stage: Stage) -> None:
    agent = stage.agent("Plain", "--restart", "on-failure")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    pid = stage.in_status(agent.id, "running")["pid"]
    stage.sm("pause", "--soft", "--account", stage.json("accounts")[0]["name"])
    os.kill(pid, signal.SIGKILL)
    waiting(stage, agent.id)
    hurry(stage)
    until(lambda: stage.session(agent.id)["restarts"]["next_at"] is None, "the restart is due")
    stage.sm("kill", agent.id)
    assert stage.session(agent.id)["status"] == "killed"
    assert ends(stage, agent.id) == ["killed"]


def park(stage: Stage) -> None:
    stage.sm("pause", "--soft", "--account", stage.json("accounts")[0]["name"])


def parked(stage: Stage, *arguments: str) -> str:
    """The id of an agent that has crashed. Its restart is due, and waits for its account."""
    agent = stage.agent("Plain", "--restart", "on-failure", *arguments)
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    pid = stage.in_status(agent.id, "running")["pid"]
    park(stage)
    if "supervised" in arguments:
        stage.sm("complete", "all done", env=stage.as_session(agent.id))
    os.kill(pid, signal.SIGKILL)
    waiting(stage, agent.id)
    hurry(stage)
    until(lambda: stage.session(agent.id)["restarts"]["next_at"] is None, "the restart is due")
    return agent.id


def test_exit_is_shown_while_the_restart_is_parked_and_after_a_kill(stage: Stage) -> None:
    session_id = parked(stage)
    held = stage.session(session_id)
    assert (held["status"], held["exit_signal"]) == ("starting", 9)
    stage.sm("kill", session_id)
    killed = stage.session(session_id)
    assert (killed["status"], killed["exit_signal"]) == ("killed", 9)


@pytest.mark.parametrize("how", ["completed", "approved"])
def test_session_that_completes_while_its_restart_is_parked_has_ended(stage: Stage, how: str) -> None:
    session_id = parked(stage, *(("--lifecycle", "supervised") if how == "approved" else ()))
    child = stage.spawn("Inbox", "work", "--parent", session_id)["session_id"]
    if how == "approved":
        stage.sm("approve", session_id)
    else:
        stage.sm("complete", "done", env=stage.as_session(session_id))
    ended = stage.ended(session_id)
    assert (ended["status"], ended["pid"], ended["exit_signal"]) == ("completed", None, 9)
    until(lambda: stage.session(child)["parent_session_id"] is None, "its child has another parent")
    assert ends(stage, session_id) == ["completed"]
    stage.sm("rm", session_id)


def test_abandoned_session_has_ended_when_its_start_or_restart_is_parked() -> None:
    more = "daemon: {ignore_evidence: [screen, title]}\nchild_agents: {on_parent_end: abandon}\n"
    with Stage(more, BOX) as stage:
        parent = stage.spawn("Inbox", "work")["session_id"]
        crashed = parked(stage, "--parent", parent)
        unstarted = stage.spawn("Plain", "work", "--parent", parent)["session_id"]
        assert stage.session(unstarted)["status"] == "spawned"
        stage.sm("kill", parent)
        for session_id, exit_signal in ((crashed, 9), (unstarted, None)):
            ended = stage.in_status(session_id, "abandoned")
            assert (ended["pid"], ended["exit_signal"]) == (None, exit_signal)
            until(lambda: stage.run("rm", session_id).returncode == 0, "it can be removed")  # noqa: B023


def test_agent_that_dies_in_its_first_start_ends(stage: Stage) -> None:
    session = stage.spawn("Plain", "work", "--restart", "on-failure")
    os.kill(session["pid"], signal.SIGKILL)
    ended = stage.ended(session["session_id"])
    assert (ended["status"], ended["restarts"]["total"]) == ("error", 0)


def test_questions_of_the_old_process_are_cancelled_and_a_proposal_stays(stage: Stage) -> None:
    agent = stage.agent("Plain", "--restart", "on-failure", "--lifecycle", "supervised")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    pid = stage.in_status(agent.id, "running")["pid"]
    env = {
        "SM_SESSION_ID": agent.id,
        "SM_SOCKET": str(stage.socket),
        "SM_TOKEN_FILE": str(stage.state / "launch" / f"{agent.id}.token"),
    }
    stage.sm("complete", "all done", env=env)
    stage.sm("ask", "Red or blue?", env=env)
    os.kill(pid, signal.SIGKILL)
    waiting(stage, agent.id)
    requests = {r["kind"]: r["state"] for r in stage.json("requests", "--all")}
    assert requests == {"completion": "open", "question": "cancelled"}
    stage.sm("approve", agent.id)
    ended = stage.session(agent.id)
    assert (ended["status"], ended["exit_signal"], ended["restarts"]["next_at"]) == ("completed", 9, None)
    assert rows(stage, "SELECT * FROM timers WHERE kind = 'restart'") == []


def test_tool_of_the_old_process_does_not_run_in_the_next_one() -> None:
    settings = "warnings: {no_progress: {after: 1, tool_after: 1}}\n"
    with Stage(SETTINGS + settings, BOX) as stage:
        agent = stage.agent("Plain", "--restart", "on-failure")
        agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
        pid = stage.in_status(agent.id, "running")["pid"]
        use = {"type": "tool_use", "id": "toolu_old", "name": "Bash", "input": {"command": "make old"}}
        agent.write_message({"role": "assistant", "content": [use]})
        os.kill(pid, signal.SIGKILL)
        waiting(stage, agent.id)
        hurry(stage)
        again(stage, agent.id, pid)
        resumed = agent.hook()  # with the token of the new process
        for name, more in (
            ("SessionStart", {"source": "resume"}),
            ("UserPromptSubmit", {"prompt": "go on", "prompt_id": "p2"}),
        ):
            resumed.send("/v1/hooks", new_key(), agent.event(name, **more))
            assert resumed.receive() == ["ok", {}]
        (found,) = until(
            lambda: [w for w in stage.session(agent.id)["warnings"] if w["kind"] == "no_progress"],
            "no progress is found",
        )
        assert found["evidence"].startswith("no tool ended")


def test_session_whose_terminal_is_closed_ends(instance: Instance) -> None:
    session = instance.spawn("Fragile", "exec sleep 1000")
    instance.world.server.close(session["tmux_session"])
    ended = instance.ended(session["session_id"])
    assert (ended["status"], ended["status_source"]) == ("error", "terminal")


def test_reported_end_of_a_session_that_waits_is_final(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("late", "exec sleep 1000"))
    crash(instance, session, "late")
    env = instance.as_session(session["session_id"])
    instance.sm("send", session["session_id"], "for the next process", "--no-wait")
    refused = instance.refused("inbox", "--take", env=env, exit_code=4)
    assert "has ended, and the next one has not started" in refused
    instance.sm("complete", "late but done", env=env)
    ended = instance.ended(session["session_id"])
    assert (ended["status"], ended["exit_signal"], ended["restarts"]["next_at"]) == ("completed", 9, None)
    hurry(instance)
    assert runs(instance, "late") == 1
    instance.sm("restore", session["session_id"])


def test_stop_of_everything_ends_a_session_that_waits() -> None:
    with Instance(MORE) as instance:
        session = instance.spawn("Fragile", counted("all", "exec sleep 1000"))
        os.kill(session["pid"], signal.SIGKILL)
        waiting(instance, session["session_id"])
        instance.sm("daemon", "stop", "--all")
        instance.sm("daemon", "start")
        assert instance.session(session["session_id"])["status"] == "killed"
        assert rows(instance, "SELECT * FROM timers WHERE kind = 'restart'") == []


@pytest.mark.parametrize(
    "point",
    [
        "Restarter.restart before 1",
        "Restarter.restart after 1",
        "Tmux.open before 1",
        "Tmux.open after 1",
        "AgentStarts.record_start before 1",
        "AgentStarts.record_start after 1",
    ],
)
def test_crash_of_the_daemon_during_a_restart_neither_loses_nor_repeats_it(
    instance: Instance, point: str
) -> None:
    name = "at-" + point.replace(".", "-").replace(" ", "-")
    session = instance.spawn("Fragile", counted(name, "exec sleep 1000"))
    crash(instance, session, name)
    instance.kill_daemon()
    make_due(instance)
    instance.start_crashing_daemon(point).wait()
    instance.start_daemon()
    now = again(instance, session["session_id"], session["pid"])
    assert (now["status"], now["restarts"]["total"]) == ("running", 1)
    until(lambda: runs(instance, name) == 2, "the program runs again")
    instance.sm("kill", session["session_id"])
    assert runs(instance, name) == 2
    assert ends(instance, session["session_id"]) == ["killed"]


def test_leftover_of_a_crash_takes_no_message_for_the_next_process(instance: Instance) -> None:
    session = instance.spawn("Fragile", counted("left", "exec sleep 1000"), "--name", "left")
    leftover = instance._caller(session["session_id"])
    taking = instance.loop.create_task(leftover.send("POST", "/v1/inbox/take", {"wait_s": 60}, new_key()))
    instance.wait(1)
    crash(instance, session, "left")
    again(instance, session["session_id"], session["pid"])
    instance.sm("send", "left", "for the next process")
    instance.wait(1)
    assert taking.done()
    assert isinstance(taking.exception(), IllegalState)
    (message,) = instance.json("log", session["session_id"])
    assert message["status"] == "queued"
