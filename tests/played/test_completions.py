"""Endings that sm detects in the last messages of turns, also while daemons are killed. The test plays the hooks."""

import os
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until
from tests.turns import notices

SETTINGS = """
child_agents:
  auto_complete: {{completion_quiet_s: {quiet_s}, idle_timeout: 1}}
daemon: {{ignore_evidence: [screen, title]}}
"""
QUICK = SETTINGS.format(quiet_s=0.2)
DONE = "Done. All 26 tests pass."
QUESTION = "Which database should I use, sqlite or postgres?"

stage = context_fixture("function", Stage, QUICK, BOX)
slow = context_fixture("function", Stage, SETTINGS.format(quiet_s=1000), BOX)


def turn(agent: Agent, text: str, prompt: str = "go on") -> None:
    """Play a whole turn that ends with `text`."""
    agent.send_event("UserPromptSubmit", prompt=prompt, prompt_id=os.urandom(4).hex())
    agent.send_event("Stop", last_assistant_message=text)


def status(stage: Stage, agent: Agent) -> dict[str, Any]:
    return stage.session(agent.id)


def completed(stage: Stage, agent: Agent) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        session = status(stage, agent)
        return session if session["status"] == "completed" else None

    return until(look, "sm completes the session")


def open_request(stage: Stage, agent: Agent, kind: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = [r for r in stage.json("requests") if r["session_id"] == agent.id and r["kind"] == kind]
        return found[0] if found else None

    return until(look, f"a request of kind {kind}")


# ------------------------------------------------------------------------------------------------------ modes


def test_mode_comes_from_the_spawn_the_type_the_workspace_or_the_configuration(stage: Stage) -> None:
    directory = stage.work / "shop"
    directory.mkdir()
    stage.sm("workspace", "create", "shop", "--working-dir", str(directory), "--lifecycle", "supervised")
    assert "supervised" in stage.sm("workspace", "show", "shop")
    inside = stage.spawn("Sh", "sleep 1000", "--workspace", "shop")
    assert (inside["mode"], inside["mode_source"]) == ("supervised", "workspace shop")
    asked = stage.spawn("Sh", "sleep 1000", "--workspace", "shop", "--lifecycle", "manual")
    assert (asked["mode"], asked["mode_source"]) == ("manual", "--lifecycle")
    stage.sm("workspace", "set", "shop", "--lifecycle", "default")
    after = stage.spawn("Sh", "sleep 1000", "--workspace", "shop")
    assert (after["mode"], after["mode_source"]) == ("auto", "child_agents.mode")
    assert "manual (from --lifecycle)" in stage.sm("status", asked["session_id"])
    assert "mode manual, from --lifecycle" in stage.sm("why", asked["session_id"])


@pytest.mark.parametrize("arguments", [("spawn", "Sh", "true"), ("workspace", "set", "main")])
def test_unknown_mode_is_refused(stage: Stage, arguments: tuple[str, ...]) -> None:
    if arguments[0] == "workspace":
        stage.run("workspace", "create", "main", "--working-dir", str(stage.work))
    error = stage.refused(*arguments, "--lifecycle", "autoo", exit_code=2)
    assert "unknown lifecycle mode 'autoo': use auto, manual or supervised" in error


# ------------------------------------------------------------------------------------- questions, quiet window


def test_question_in_prose_is_a_request_whose_answer_is_sent_as_a_message(stage: Stage) -> None:
    agent = stage.agent()
    turn(agent, QUESTION)
    request = open_request(stage, agent, "question")
    assert request["questions"][0]["question"] == QUESTION
    stage.sm("answer", request["request_id"], "sqlite")
    message = until(lambda: stage.messages(agent), "the agent gets the answer")[-1]
    assert message == f"answer to {request['request_id']}: sqlite"


def test_question_is_cancelled_when_the_agent_works_again(stage: Stage) -> None:
    agent = stage.agent()
    turn(agent, QUESTION)
    request = open_request(stage, agent, "question")
    agent.send_event("UserPromptSubmit", prompt="sqlite", prompt_id="p2")
    after = stage.json("requests", request["request_id"])
    assert (after["state"], after["reason"]) == ("cancelled", "the session works again")


def test_complete_in_the_quiet_window_ends_the_session_at_once(slow: Stage) -> None:
    agent = slow.agent()
    turn(agent, DONE)
    assert status(slow, agent)["status"] == "idle"
    slow.sm("complete", "my own words", env=slow.as_session(agent.id))
    done = status(slow, agent)
    assert (done["status"], done["completion_message"]) == ("completed", "my own words")


def test_quiet_window_survives_a_kill_of_the_daemon(slow: Stage) -> None:
    agent = slow.agent()
    turn(agent, DONE)
    slow.kill_daemon()
    with closing(sqlite3.connect(slow.state / "sm.db")) as db:
        (due,) = db.execute("SELECT due_at FROM timers WHERE subject = ?", (agent.id,)).fetchone()
        db.execute("UPDATE timers SET due_at = ?, within_s = 0.1", (due,))
        db.commit()
    slow.run("daemon", "start")
    completed(slow, agent)
    assert sum(f"({agent.id}) completed" in line for line in notices(slow)) == 1


# ---------------------------------------------------------------------------------------------- kill -9, often


@contextmanager
def killed(stage: Stage, times: int, dice: random.Random) -> Iterator[None]:
    """Kill and restart the daemon `times` times at random moments, until the block ends or all kills are done."""
    over = threading.Event()

    def kill() -> None:
        for _ in range(times):
            over.wait(dice.uniform(0.05, 0.8))  # a busy daemon needs longer to answer any hook
            stage.kill_daemon()
            stage.run("daemon", "start")

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
        thread.join()
    finally:
        over.set()
        thread.join()


# ------------------------------------------------------------------------------- facts of the turn


FAILURES = (
    "The job died after 3 minutes.",
    "I removed the old flag and rolled it back.",
    "Every edit is refused by the sandbox.",
    "No lo he conseguido.",
    "I removed the flag.",
)
"""Final messages of turns whose last tools failed. The last one only claims a piece of work."""


def test_same_words_complete_a_turn_whose_tools_succeeded(stage: Stage) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="Remove the flag", prompt_id=os.urandom(4).hex())
    use = {"tool_name": "Bash", "tool_use_id": "toolu_9", "tool_input": {"command": "make"}}
    agent.send_event("PreToolUse", **use)
    agent.send_event("PostToolUse", **use)
    agent.send_event("Stop", last_assistant_message=FAILURES[-1])
    completed(stage, agent)
