"""Endings that sm detects in the last messages of turns, also while daemons are killed. The test plays the hooks."""

import os
import random
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until
from tests.turns import notices, told, turn

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


# -------------------------------------------------------------------------------------------- seed 003, flows


def test_auto_mode_completes_a_session_that_says_done_and_tells_its_parent(stage: Stage) -> None:
    """Seed 003, Auto Mode, example flow. The transcript is archived when the process ends, not before."""
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    child = stage.agent("Plain", "--parent", parent)
    text = "Done. All tests passing."
    turn(child, text)
    done = completed(stage, child)
    assert (done["status_source"], done["completion_message"], done["mode"]) == ("completion", text, "auto")
    assert told(stage, child, "completed") == [f'child plain-{child.id} ({child.id}) completed: "{text}"']
    until(lambda: stage.json("log", parent), "the parent gets a message")
    (event,) = [e for e in stage.events(child.id) if e["type"] == "completed"]
    assert event["message"] == f'Child {child.id} completed - "{text}"'
    assert f'completed: Child {child.id} completed - "{text}"' in stage.sm("events", parent)
    (line,) = stage.sm("children", parent).splitlines()
    assert re.fullmatch(rf'plain-{child.id} \({child.id}\) \| completed \| .* ago \| "{text}"', line)
    assert done["pid"] is not None
    assert stage.has_terminal(f"claude-{child.id}")
    stage.sm("kill", child.id)
    until(Archived(stage.state / "archives" / child.id).exists, "its output is archived")


def test_manual_mode_detects_nothing_and_the_parent_kills(stage: Stage) -> None:
    """Seed 003, Manual Mode, example flow."""
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    as_parent = stage.as_session(parent)
    child = stage.agent("Plain", "--lifecycle", "manual", env=as_parent)
    turn(child, DONE)
    other = stage.agent("Plain")  # its completion shows that the time of the first one has passed
    turn(other, DONE)
    completed(stage, other)
    assert status(stage, child)["status"] == "idle"
    progress = stage.sm("progress", child.id, env=as_parent)
    assert progress.startswith(f"plain-{child.id} ({child.id}) | idle | ")
    assert stage.json("progress", child.id, env=as_parent)["is_complete"] is False
    assert stage.has_terminal(f"claude-{child.id}")
    stage.sm("kill", child.id, env=as_parent)
    assert status(stage, child)["status"] == "killed"
    assert told(stage, child, "completed") == []


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_supervised_mode_asks_the_parent_who_approves_or_rejects(stage: Stage, answer: str) -> None:
    """Seed 003, Supervised Mode, example flow. The notice ends with the commands to type."""
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    as_parent = stage.as_session(parent)
    child = stage.agent("Plain", "--lifecycle", "supervised", env=as_parent)
    turn(child, DONE)
    request = open_request(stage, child, "completion")
    assert (request["evidence"], status(stage, child)["status"]) == ("completion", "idle")
    proposed = f'child plain-{child.id} ({child.id}) proposes its completion: "{DONE}"; '
    assert told(stage, child, "") == [f"{proposed}answer with: sm approve rN, or: sm deny rN WHY"]
    if answer == "approve":
        stage.sm("approve", child.id, env=as_parent)
        assert completed(stage, child)["completion_message"] == DONE
        return
    assert stage.sm("reject", child.id, "also run the linter", env=as_parent).startswith("Denied")

    def typed() -> dict[str, Any] | None:
        log = stage.json("log", child.id)
        return log[-1] if log and log[-1]["status"] != "queued" else None

    message = until(typed, "the agent gets the reason")
    assert "also run the linter" in message["text"]
    assert status(stage, child)["status"] == "idle"
    # The stand-in draws no pasted text: this hook takes the message, without which sm would look for it for a minute.
    prompt = f"[sm] from sh-{parent} ({parent}), message {message['message_id']}\n{message['text']}"
    turn(child, f"{DONE} The linter too.", prompt)
    open_request(stage, child, "completion")
    stage.sm("approve", child.id, env=as_parent)
    assert completed(stage, child)["completion_message"] == f"{DONE} The linter too."


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


# ------------------------------------------------------------------------------- facts of the turn


FAILURES = (
    "The job died after 3 minutes.",
    "I removed the old flag and rolled it back.",
    "Every edit is refused by the sandbox.",
    "No lo he conseguido.",
    "I removed the flag.",
)
"""Final messages of turns whose last tools failed. The last one only claims a piece of work."""


def failing_turn(agent: Agent, text: str, *, restart: Callable[[], object] | None = None) -> None:
    """Play a turn with two tools that fail, in hooks and in the transcript, and its final message."""
    agent.send_event("UserPromptSubmit", prompt="Remove the flag", prompt_id=os.urandom(4).hex())
    agent.write_prompt("Remove the flag")
    for number in (1, 2):
        use = {
            "tool_name": "Bash",
            "tool_use_id": f"toolu_{agent.id}{number}",
            "tool_input": {"command": "make"},
        }
        agent.send_event("PreToolUse", **use)
        block = {"type": "tool_use", "id": use["tool_use_id"], "name": "Bash", "input": {"command": "make"}}
        message = {"id": f"m{agent.id}{number}", "model": "claude-opus-4-8", "content": [block]}
        agent.write_message(message)
        agent.send_event("PostToolUseFailure", **use)
        agent.write_tool_result(str(use["tool_use_id"]), "make: *** failed", is_error=True)
    if restart is not None:
        restart()
    agent.send_event("Stop", last_assistant_message=text)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "daemon restarts in the turn"])
def test_turn_whose_tools_failed_and_that_reports_a_failure_is_not_completed(
    stage: Stage, restarts: bool
) -> None:
    agents = [stage.agent("Plain") for _ in FAILURES]
    for agent, text in zip(agents, FAILURES, strict=True):
        failing_turn(agent, text, restart=partial(stage.sm, "daemon", "restart") if restarts else None)
    after = stage.agent("Plain")
    turn(after, DONE)
    completed(stage, after)  # its whole quiet window has passed, and that of the others before it
    assert [status(stage, agent)["status"] for agent in agents] == ["idle"] * len(agents)
