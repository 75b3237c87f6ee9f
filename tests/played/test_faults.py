"""Failed turns, also while daemons are killed. The test plays the hooks and the transcripts of claude."""

import os
import sqlite3
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
child_agents: {auto_complete: {enabled: false}}
daemon: {ignore_evidence: [screen, title]}
retry: {max: 2, backoff_s: [0.1]}
"""
GO_ON = "A fault of the service ended your last turn"
OVERLOADED = "API Error: Repeated 529 Overloaded errors"

stage = context_fixture("function", Stage, SETTINGS, BOX)


def begin(stage: Stage, agent: Agent, prompt: str = "go on") -> None:
    """Begin a turn, which lasts longer than no time."""
    agent.send_event("UserPromptSubmit", prompt=prompt, prompt_id=os.urandom(4).hex())
    stage.wait(0.1)


def fail(agent: Agent, error: str = "overloaded", text: str = OVERLOADED) -> None:
    agent.send_event("StopFailure", error=error, last_assistant_message=text)


def told(stage: Stage) -> list[str]:
    texts = [message["text"] for message in stage.json("inbox")]
    return [line for text in texts for line in text.split("\n") if "does not go on" in line]


def first_told(stage: Stage) -> str:
    """As `told`, once there is one: a notice waits a moment for others before it becomes a message."""
    (line,) = until(lambda: told(stage), "the operator is told")
    return line


def faults(stage: Stage, agent: Agent) -> list[str]:
    return [e["metadata"]["fault"] for e in stage.events(agent.id) if "fault" in e["metadata"]]


def sent(stage: Stage, agent: Agent) -> list[dict[str, Any]]:
    """The messages to go on, the oldest first."""
    found = [m for m in stage.json("log", agent.id) if GO_ON in m["text"]]
    return sorted(found, key=lambda message: message["message_id"])


def next_sent(stage: Stage, agent: Agent, number: int) -> str:
    """The message to go on with this number (from 1), as claude shows it."""
    messages = until(lambda: len(found := sent(stage, agent)) >= number and found, "sm sends a message")
    return f"[sm] from sm, message {messages[number - 1]['message_id']}\n{messages[number - 1]['text']}"


def test_fault_that_only_the_transcript_reports_survives_a_kill_after_the_read(stage: Stage) -> None:
    agent = stage.agent()
    begin(stage, agent)
    stage.kill_daemon()
    crashing = stage.start_crashing_daemon("Notices.add_for_fault before 1")
    agent.write_failure("invalid_request", "Prompt is too long")
    crashing.wait()
    stage.start_daemon()
    assert "the context is full" in first_told(stage)
    assert faults(stage, agent) == ["context_full"]


def test_retries_are_sent_once_each_and_told_once_while_daemons_are_killed(stage: Stage) -> None:
    agent = stage.agent()
    begin(stage, agent)
    for number in (1, 2):
        fail(agent)
        stage.restart()
        prompt = next_sent(stage, agent, number)
        stage.restart()
        begin(stage, agent, prompt)
        until(lambda: stage.session(agent.id)["status"] == "running", "the turn begins")
    assert told(stage) == []
    fail(agent)
    stage.restart()
    assert "does not go on after 2 retries: the turn failed: the API is overloaded" in first_told(stage)
    assert len(sent(stage, agent)) == 2
    assert faults(stage, agent) == ["overloaded"] * 3


@pytest.mark.parametrize("point", ["before", "after"])
def test_crash_while_a_retry_is_sent_neither_loses_nor_repeats_it(stage: Stage, point: str) -> None:
    agent = stage.agent()
    begin(stage, agent)
    stage.kill_daemon()
    crashing = stage.start_crashing_daemon(f"Retries.send {point} 1")
    agent.begin_event("StopFailure", error="overloaded", last_assistant_message=OVERLOADED)
    crashing.wait()
    stage.start_daemon()
    agent.end_event()
    first = next_sent(stage, agent, 1)
    until(lambda: sent(stage, agent)[0]["status"] == "delivering", "sm types the message")
    begin(stage, agent, first)
    fail(agent, "server_error", "API Error: 500 Internal server error")
    next_sent(stage, agent, 2)
    assert [m["text"] for m in sent(stage, agent)] == [sent(stage, agent)[0]["text"]] * 2


def test_retry_is_shown_and_a_message_replaces_it() -> None:
    with Stage(SETTINGS.replace("[0.1]", "[5000]"), BOX) as stage:
        agent = stage.agent()
        begin(stage, agent)
        fail(agent)
        words = (
            "the API is overloaded: API Error: Repeated 529 Overloaded errors (StopFailure); retry 1 of 2 at "
        )
        until(lambda: words in stage.session(agent.id)["status_reason"], "the retry is shown")
        for command in ("status", "why"):
            assert "retry 1 of 2 at " in stage.sm(command, agent.id)
        begin(stage, agent, "never mind")
        agent.send_event("Stop", last_assistant_message="It is done.")
        until(lambda: "retry" not in stage.session(agent.id)["status_reason"], "the reason changes")
        assert (sent(stage, agent), told(stage)) == ([], [])


LIMIT = "You've hit your session limit \u00b7 resets 5:59am (UTC)"


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "after a kill"])
def test_end_of_a_turn_that_met_its_limit_is_no_success_when_it_is_read_separately(
    stage: Stage, killed: bool
) -> None:
    agent = stage.agent()
    begin(stage, agent)
    agent.write_failure("rate_limit", LIMIT)
    agent.send_event("Notification")
    until(lambda: "session limit" in stage.session(agent.id)["status_reason"], "the limit is seen")
    (account,) = stage.json("accounts")
    assert (account["waiting"], account["last_success_at"]) == (1, None)
    if killed:
        stage.restart()
    agent.write_turn_end()
    end = agent.transcript.stat().st_size
    until(lambda: read_to(stage, agent) == end, "the daemon has read the line")
    (account,) = stage.json("accounts")
    assert (account["waiting"], account["last_success_at"]) == (1, None)
    assert "session limit" in stage.session(agent.id)["status_reason"]
    assert "session limit" in stage.sm("why", agent.id)
    stage.sm("resume", "--account", account["name"])
    until(
        lambda: any("The limit that ended your last turn" in m["text"] for m in stage.json("log", agent.id)),
        "the agent is told to go on",
        60,
    )


def read_to(stage: Stage, agent: Agent) -> int:
    """The position to which the daemon has read the transcript of the agent."""
    with closing(sqlite3.connect(stage.state / "sm.db")) as database:
        query = "SELECT offset FROM transcripts WHERE session_id = ? AND path = ?"
        row = database.execute(query, (agent.id, str(agent.transcript))).fetchone()
    return 0 if row is None else int(row[0])


@pytest.mark.parametrize("stagger_s", [0.1, 3000])
def test_sessions_go_on_after_a_limit_with_the_configured_pause_between_them(stagger_s: float) -> None:
    with Stage(f"{SETTINGS}quota: {{stagger_s: {stagger_s}}}\n", BOX) as stage:
        agents = [stage.agent() for _ in range(3)]
        for agent in agents:
            begin(stage, agent)
            fail(agent, "rate_limit", LIMIT)
        until(lambda: stage.json("accounts")[0]["waiting"] == 3, "the limit is seen")
        before = stage.now().timestamp()
        stage.sm("resume", "--account", stage.json("accounts")[0]["name"])
        if stagger_s < 1:
            for agent in agents:
                until(lambda: limits_over(stage, agent) == 1, "the agent goes on")  # noqa: B023
            return
        due_s = [due - before for due in follow_times(stage)]
        assert [round(due / stagger_s) for due in due_s] == [1, 2, 3]
        assert [limits_over(stage, agent) for agent in agents] == [0, 0, 0]


def limits_over(stage: Stage, agent: Agent) -> int:
    texts = [m["text"] for m in stage.json("log", agent.id)]
    return sum("The limit that ended your last turn" in text for text in texts)


def follow_times(stage: Stage) -> list[float]:
    """When sessions go on after a limit, in seconds since the epoch."""
    with closing(sqlite3.connect(stage.state / "sm.db")) as database:
        rows = database.execute("SELECT due_at FROM timers WHERE kind = 'follow' ORDER BY due_at").fetchall()
    return [datetime.fromisoformat(due_at).timestamp() for (due_at,) in rows]
