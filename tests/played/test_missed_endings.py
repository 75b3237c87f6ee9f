"""Ends of turns around the end of the daemon: each is read, and told exactly once.

The test plays an agent whose user has a Stop hook: the agent publishes that it works until that hook is over.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played.test_completions import completed, open_request
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until
from tests.turns import begin_turn, end_turn, leave_turn, told

LONG = os.environ.get("SM_LONG") == "1"
SEED = int(os.environ.get("SM_SEED", "1"))
SETTINGS = """
child_agents: {auto_complete: {completion_quiet_s: 0.2, idle_timeout: 1000}}
daemon: {ignore_evidence: [screen, title]}
"""
DONE = "Done. All 12 tests pass."
QUESTION = "Which database should I use, sqlite or postgres?"
FAILED = "I could not fix the login page: the build fails with 14 errors."

stage = context_fixture("function", Stage, SETTINGS, BOX)


def is_completed(stage: Stage, agent: Agent) -> None:
    assert completed(stage, agent)["completion_message"] == DONE
    assert len(told(stage, agent, "completed")) == 1


def has_question(stage: Stage, agent: Agent) -> None:
    assert open_request(stage, agent, "question")["questions"][0]["question"] == QUESTION


def has_failed(stage: Stage, agent: Agent) -> None:
    until(lambda: told(stage, agent, ""), "the failure is told")
    session = stage.session(agent.id)
    assert (session["status"], FAILED[:30] in session["status_reason"]) == ("idle", True)


ENDS = [(DONE, is_completed), (QUESTION, has_question), (FAILED, has_failed)]


@pytest.mark.parametrize(("text", "check"), ENDS)
def test_turn_whose_end_was_reported_to_a_killed_daemon_is_read(
    stage: Stage, text: str, check: Callable[[Stage, Agent], None]
) -> None:
    agent = stage.agent("Plain", "--parent", stage.spawn("Sh", "sleep 1000")["session_id"])
    begin_turn(agent)
    end_turn(agent, text)
    stage.kill_daemon()
    leave_turn(agent)
    stage.run("daemon", "start")
    check(stage, agent)


@pytest.mark.parametrize(("text", "check"), ENDS)
def test_turn_whose_end_no_hook_reported_is_read_from_the_transcript(
    stage: Stage, text: str, check: Callable[[Stage, Agent], None]
) -> None:
    agent = stage.agent("Plain", "--parent", stage.spawn("Sh", "sleep 1000")["session_id"])
    begin_turn(agent)
    stage.kill_daemon()
    agent.append_turn(text)
    leave_turn(agent)
    stage.run("daemon", "start")
    check(stage, agent)


def test_end_that_was_told_is_not_told_again_by_the_transcript(stage: Stage) -> None:
    agent = stage.agent()
    begin_turn(agent)
    end_turn(agent, QUESTION)
    leave_turn(agent)
    request = open_request(stage, agent, "question")
    stage.sm("deny", request["request_id"])
    stage.restart()
    until(lambda: "idle" in stage.sm("why", agent.id), "the new daemon has read its sources")
    other = stage.agent()  # its end shows that the new daemon has had the time to read the first one
    begin_turn(other)
    end_turn(other, DONE)
    leave_turn(other)
    completed(stage, other)
    assert [r["state"] for r in stage.json("requests", "--all") if r["session_id"] == agent.id] != ["open"]
    assert len(told(stage, agent, "")) == 1


def test_stored_end_is_void_when_the_turn_goes_on(stage: Stage) -> None:
    """A user's Stop hook that blocks the end makes the turn go on."""
    agent = stage.agent()
    begin_turn(agent)
    end_turn(agent, DONE)
    agent.send_event("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="t1")
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        assert db.execute("SELECT * FROM turn_ends WHERE session_id = ?", (agent.id,)).fetchall() == []
    stage.restart()
    agent.send_event("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="t1")
    end_turn(agent, QUESTION)
    leave_turn(agent)
    has_question(stage, agent)
    assert told(stage, agent, "completed") == []


def test_stored_end_of_an_earlier_process_completes_neither_the_restored_session_nor_its_fork(
    stage: Stage,
) -> None:
    agent = stage.agent()
    begin_turn(agent)
    end_turn(agent, DONE)
    before = stage.session(agent.id)

    def kept(session_id: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(stage.state / "sm.db")) as db:
            return db.execute("SELECT * FROM turn_ends WHERE session_id = ?", (session_id,)).fetchall()

    (row,) = kept(agent.id)
    stage.kill_daemon()
    os.kill(before["pid"], signal.SIGKILL)
    stage.run("daemon", "start")
    stage.ended(agent.id)
    assert kept(agent.id) == []
    restored = run_again(stage, "restore", agent.id)
    fork = run_again(stage, "fork", agent.id)
    assert (restored.id, kept(fork.id)) == (agent.id, [])
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.state / "sm.db")) as db, db:  # as if the end had not removed it
        db.execute("INSERT INTO turn_ends VALUES (?, ?, ?, ?, ?)", row)
    stage.run("daemon", "start")
    other = stage.agent()  # its end shows that the new daemon has had the time to read the others
    begin_turn(other)
    end_turn(other, DONE)
    leave_turn(other)
    completed(stage, other)
    for each in (restored, fork):
        assert stage.session(each.id)["status"] in ("starting", "idle")
        assert [e for e in stage.events(each.id, "--type", "completed") if e["session_id"] == each.id] == []
        begin_turn(each)
        end_turn(each, DONE)
        leave_turn(each)
        is_completed(stage, each)
        each.end()


def run_again(stage: Stage, command: str, session_id: str) -> Agent:
    """Restore or fork the session. The agent of this test accepts no conversation, so the command is not awaited."""
    known = {s["pid"] for s in stage.json("all")}
    running = stage.start_command(command, session_id)

    def started() -> dict[str, Any] | None:
        return next((s for s in stage.json("all") if s["pid"] and s["pid"] not in known), None)

    try:
        return Agent(stage, until(started, f"the agent after sm {command}")["session_id"])
    finally:
        running.kill()
        running.communicate()
