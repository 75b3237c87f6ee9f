"""Pauses through the real command: what they hold, and what ends them. The test plays the hooks of agents."""

import os
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents:
  auto_complete: {completion_quiet_s: 0.2, remind_after_s: [1]}
daemon: {ignore_evidence: [screen, title]}
"""
GO_ON = "You were paused in the middle of your work. Go on where you were interrupted."

stage = context_fixture("function", Stage, SETTINGS, BOX)


@pytest.fixture
def agent(stage: Stage) -> Agent:
    return stage.agent("Plain")


def begin_turn(agent: Agent, prompt: str = "work") -> None:
    agent.send_event("UserPromptSubmit", prompt=prompt, prompt_id=os.urandom(4).hex())


def end_turn(agent: Agent, text: str = "Reading on.") -> None:
    agent.send_event("Stop", last_assistant_message=text)


def make_idle(stage: Stage, agent: Agent) -> None:
    begin_turn(agent)
    end_turn(agent)
    stage.in_status(agent.id, "idle")


def interrupts(stage: Stage, agent: Agent) -> int:
    """The number of interrupts that were carried out."""
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        query = "SELECT count(*) FROM outbox WHERE session_id = ? AND kind = 'interrupt' AND state = 'done'"
        return int(db.execute(query, (agent.id,)).fetchone()[0])


def order_pause(stage: Stage, agent: Agent) -> None:
    """Pause an agent that works, and do not wait for the effect: the test plays it."""
    done = stage.run("pause", agent.id, "--wait", "0")
    assert done.returncode == 10 and "its turn still spends" in done.stdout, (done.stdout, done.stderr)


def find(stage: Stage, agent: Agent, number: int) -> dict[str, Any]:
    return next(m for m in stage.json("log", agent.id) if m["message_id"] == number)


def pause_of(stage: Stage, session_id: str) -> Any:
    return stage.session(session_id)["paused"]


# What a pause is


def test_pause_is_shown_beside_the_status_and_ends_with_resume(stage: Stage) -> None:
    session = stage.spawn("Sh", "sleep 1000", "--name", "shown")
    assert session["paused"] is None
    assert stage.sm("pause", session["session_id"], "--reason", "too dear").startswith("Paused sh-shown\n")
    paused = stage.session(session["session_id"])
    assert paused["status"] == "running"
    assert (paused["paused"]["by"], paused["paused"]["reason"]) == ("operator", "too dear")
    assert paused["paused"]["until"] is None
    (row,) = (line for line in stage.sm("all").splitlines() if "sh-shown" in line)
    assert "paused (running)" in row and row.endswith("too dear")
    (row,) = (line for line in stage.sm("ls").splitlines() if "sh-shown" in line)
    assert "paused (running)" in row and row.endswith("too dear")
    assert "Paused:" in stage.sm("status", session["session_id"])
    assert "paused: too dear" in stage.sm("why", session["session_id"])
    assert stage.sm("resume", session["session_id"]) == "Resumed sh-shown\n"
    assert pause_of(stage, session["session_id"]) is None
    events = stage.json("events", session["session_id"])
    types = [e["type"] for e in events if "held" not in e["metadata"] or e["type"] == "resumed"]
    assert [t for t in types if t in ("paused", "resumed")] == ["paused", "resumed"]


# Turns


def test_running_agent_is_interrupted_and_told_to_go_on(stage: Stage, agent: Agent) -> None:
    begin_turn(agent)
    stage.in_status(agent.id, "running")
    order_pause(stage, agent)
    agent.write_interruption()
    stage.in_status(agent.id, "idle")
    assert GO_ON not in stage.messages(agent)
    stage.sm("resume", agent.id)
    assert stage.messages(agent).count(GO_ON) == 1


def test_idle_agent_gets_no_key_and_is_not_told_to_go_on(stage: Stage, agent: Agent) -> None:
    make_idle(stage, agent)
    stage.sm("pause", agent.id)
    stage.sm("resume", agent.id)
    assert GO_ON not in stage.messages(agent)


def test_turn_that_begins_during_a_pause_is_interrupted(stage: Stage, agent: Agent) -> None:
    make_idle(stage, agent)
    stage.sm("pause", agent.id)
    begin_turn(agent, "typed by a person")
    stage.in_status(agent.id, "running")
    until(lambda: interrupts(stage, agent) == 1, "the key is pressed")
    agent.write_interruption()
    stage.in_status(agent.id, "idle")
    stage.sm("resume", agent.id)
    assert stage.messages(agent).count(GO_ON) == 1


def test_paused_session_that_spends_is_verified_anew(stage: Stage, agent: Agent) -> None:
    make_idle(stage, agent)
    stage.sm("pause", agent.id)
    before = pause_of(stage, agent.id)
    assert (before["state"], before["spends"]) == ("paused", [])
    stage.wait(5)
    usage = {"input_tokens": 10, "output_tokens": 20}
    agent.write_message(
        {"id": "msg_1", "model": "claude-haiku-4-5", "role": "assistant", "content": [], "usage": usage}
    )
    until(lambda: pause_of(stage, agent.id)["settled_at"] != before["settled_at"], "the pause is open again")


def test_soft_pause_lets_the_turn_end(stage: Stage, agent: Agent) -> None:
    begin_turn(agent)
    stage.in_status(agent.id, "running")
    stage.sm("pause", agent.id, "--soft")
    dialog = agent.open_dialog("Bash", {"command": "make"})
    assert stage.session(agent.id)["status"] == "waiting_input"
    dialog.start_wait()
    approval = stage.start_command("approve", dialog.name)
    dialog.take_decision()
    approval.communicate(timeout=60)
    assert approval.returncode == 0
    agent.end_tool(dialog)
    stage.in_status(agent.id, "running")
    end_turn(agent)
    stage.in_status(agent.id, "idle")
    stage.sm("resume", agent.id)
    assert GO_ON not in stage.messages(agent)


# What a pause holds


def test_message_waits_for_the_end_of_the_pause(stage: Stage, agent: Agent) -> None:
    make_idle(stage, agent)
    stage.sm("pause", agent.id)
    assert "queued (the session is paused)" in stage.sm("send", agent.id, "hello")
    message = next(m for m in stage.json("log", agent.id) if m["text"] == "hello")
    assert (message["status"], message["reason"]) == ("queued", "the session is paused")
    stage.sm("resume", agent.id)
    until(lambda: find(stage, agent, message["message_id"])["status"] != "queued", "the message is typed")


def test_inbox_of_a_paused_program_stays_closed(stage: Stage) -> None:
    session = stage.spawn("Inbox", "x")
    stage.sm("pause", session["session_id"])
    stage.sm("send", session["session_id"], "hello", "--no-wait")
    env = stage.as_session(session["session_id"])
    assert stage.json("inbox", "--take", env=env) == []
    assert stage.json("log", session["session_id"])[0]["status"] == "queued"
    stage.sm("resume", session["session_id"])
    assert [m["text"] for m in stage.json("inbox", "--take", env=env)] == ["hello"]


def test_paused_session_starts_no_agent(stage: Stage) -> None:
    session = stage.spawn("Sh", "sleep 1000")
    stage.sm("pause", session["session_id"])
    env = stage.as_session(session["session_id"])
    refusal = stage.refused("spawn", "Sh", "sleep 1", exit_code=4, env=env)
    assert "is paused" in refusal
    stage.sm("resume", session["session_id"])
    stage.sm("spawn", "Sh", "sleep 1000", env=env)


def test_paused_session_is_not_completed_and_not_reminded(stage: Stage, agent: Agent) -> None:
    begin_turn(agent)
    stage.in_status(agent.id, "running")
    stage.sm("pause", agent.id, "--soft")
    end_turn(agent, "Done. All 26 tests pass.")
    stage.in_status(agent.id, "idle")
    other = stage.agent("Plain")  # its completion shows that the timers have run
    begin_turn(other)
    end_turn(other, "Done. All 26 tests pass.")
    stage.in_status(other.id, "completed")
    assert stage.session(agent.id)["status"] == "idle"
    stage.sm("resume", agent.id)
    stage.in_status(agent.id, "completed")


def test_parent_hears_of_the_end_of_a_paused_child_but_not_that_it_is_idle(stage: Stage) -> None:
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    child = stage.agent("Plain", "--parent", parent)
    begin_turn(child)
    stage.in_status(child.id, "running")
    order_pause(stage, child)
    child.write_interruption()
    stage.in_status(child.id, "idle")
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:  # of the transaction of the status
        kinds = db.execute("SELECT kind FROM notices WHERE session_id = ?", (child.id,)).fetchall()
    assert kinds == []
    stage.sm("kill", child.id)
    texts = until(lambda: [m["text"] for m in stage.json("log", parent)], "the parent hears of the end")
    assert len(texts) == 1
    assert f"({child.id}) killed" in texts[0]


# Time


def test_pause_with_a_duration_ends_also_after_a_crash(stage: Stage) -> None:
    session = stage.spawn("Sh", "sleep 1000")["session_id"]
    stage.sm("pause", session, "--for", "1s")
    stage.restart()
    until(lambda: pause_of(stage, session) is None, "the pause ends")
    resumed = [e for e in stage.json("events", session) if e["type"] == "resumed"]
    assert [e["metadata"]["by"] for e in resumed] == ["sm"]


def test_pause_of_an_older_version_is_verified_when_the_daemon_starts(stage: Stage, agent: Agent) -> None:
    make_idle(stage, agent)
    stage.sm("pause", agent.id)
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.state / "sm.db")) as db, db:
        db.execute(
            "UPDATE sessions SET paused = json_remove(paused, '$.settled_at', '$.held', '$.quiet_since')"
            " WHERE id = ?",
            (agent.id,),
        )
        db.execute("DELETE FROM timers WHERE subject = ? AND kind = 'pause'", (agent.id,))
    stage.run("daemon", "start")
    until(lambda: pause_of(stage, agent.id)["state"] == "paused", "it is seen to spend nothing")
    assert interrupts(stage, agent) == 0


def test_second_pause_replaces_the_end_of_the_first(stage: Stage) -> None:
    session = stage.spawn("Sh", "sleep 1000")["session_id"]
    stage.sm("pause", session, "--for", "1s")
    first = pause_of(stage, session)
    stage.sm("pause", session)
    second = pause_of(stage, session)
    assert (second["at"], second["until"]) == (first["at"], None)
    other = stage.spawn("Sh", "sleep 1000")["session_id"]
    stage.sm("pause", other, "--for", "1s")
    until(lambda: pause_of(stage, other) is None, "a pause of the same duration ends")
    assert pause_of(stage, session) is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--for", "30m", "--until", "06:00"), "either --for or --until"),
        (("--for", "nan"), "invalid duration"),
        (("--for", "0s"), "more than 0 and at most 366 days"),
        (("--until", "2020-01-01T06:00"), "in the past"),
        (("--until", "6 o'clock"), "invalid time"),
    ],
)
def test_pause_with_an_invalid_end_is_refused(
    stage: Stage, agent: Agent, options: tuple[str, ...], words: str
) -> None:
    assert words in stage.refused("pause", agent.id, *options, exit_code=2)
    assert pause_of(stage, agent.id) is None


# Permissions and trees


def test_session_pauses_its_descendants_only(stage: Stage) -> None:
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    child = stage.spawn("Sh", "sleep 1000", "--parent", parent)["session_id"]
    env = stage.as_session(child)
    assert "may not pause" in stage.refused("pause", parent, exit_code=5, env=env)
    assert "may not pause" in stage.refused("pause", child, exit_code=5, env=env)
    stage.sm("pause", child, env=stage.as_session(parent))
    assert pause_of(stage, child)["by"] == parent
    assert "may not pause" in stage.refused("resume", child, exit_code=5, env=env)


def test_session_neither_ends_nor_changes_the_pause_of_a_person(stage: Stage) -> None:
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    child = stage.spawn("Sh", "sleep 1000", "--parent", parent)["session_id"]
    other = stage.spawn("Sh", "sleep 1000", "--parent", parent)["session_id"]
    env = stage.as_session(parent)
    stage.sm("pause", child)
    stage.sm("pause", other, env=env)
    for command in ("resume", child), ("pause", child, "--for", "1s"):
        refusal = stage.refused(*command, exit_code=5, env=env)
        assert "was paused by operator: you cannot change or end that pause" in refusal
    assert pause_of(stage, child)["until"] is None
    done = stage.run("resume", "--all", env=env)
    assert done.returncode == 0 and "skipped: session" in done.stderr
    assert pause_of(stage, other) is None
    stage.sm("resume", child)
    assert pause_of(stage, child) is None


def test_tree_is_paused_and_resumed_with_one_command(stage: Stage) -> None:
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    child = stage.spawn("Sh", "sleep 1000", "--parent", parent)["session_id"]
    grandchild = stage.spawn("Sh", "sleep 1000", "--parent", child)["session_id"]
    assert stage.json("pause", parent, "--tree")["sessions"] == [parent, child, grandchild]
    assert stage.json("resume", parent, "--tree")["sessions"] == [parent, child, grandchild]
    stage.sm("pause", child)
    assert stage.json("resume", parent, "--tree")["sessions"] == [child]


def test_ended_session_is_not_paused(stage: Stage) -> None:
    gone = stage.spawn("Sh", "exit 0")["session_id"]
    stage.ended(gone)
    assert "it cannot be paused" in stage.refused("pause", gone, exit_code=4)
    assert f"hint: sm restore {gone}" in stage.refused("resume", gone, exit_code=4)
