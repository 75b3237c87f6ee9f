"""The warning of a fast use of tokens, which needs the history of an agent type. Played claude."""

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from tests.fixtures import context_fixture
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = """
daemon: {ignore_evidence: [screen, title]}
warnings: {no_progress: {after: 2, do: off}, memory: {do: off}}
"""

stage = context_fixture("function", Stage, SETTINGS, BOX)


@pytest.fixture
def agent(stage: Stage) -> Agent:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{agent.id}-1")
    stage.in_status(agent.id, "running")
    return agent


def use(agent: Agent, number: int, tokens: int, age_s: float) -> None:
    """Let the agent use tokens some time ago."""
    message = {"id": f"m{number}", "role": "assistant", "model": "claude-haiku-4-5", "content": []}
    at = agent.stage.now() - timedelta(seconds=age_s)
    agent.write_message(message | {"usage": {"input_tokens": tokens, "output_tokens": 0}}, at)


def complete(stage: Stage, agent_id: str, count: int, tokens_a_minute: int) -> None:
    """Give the agent type Plain a history."""
    stage.kill_daemon()
    with closing(sqlite3.connect(stage.state / "sm.db")) as db, db:
        db.execute("UPDATE sessions SET created_at = '2020-01-01T00:00:00.000Z'")
        columns = [row[1] for row in db.execute("PRAGMA table_info(sessions)")]
        copied = ", ".join(
            c for c in columns if c not in ("id", "name", "status", "worked_s", "ended", "token_hash")
        )
        for number in range(count):
            id = f"{number:08x}"
            db.execute(
                f"INSERT INTO sessions (id, name, status, worked_s, ended, {copied})"  # noqa: S608
                f" SELECT ?, ?, 'completed', 60, 1, {copied} FROM sessions WHERE id = ?",
                (id, f"plain-{id}", agent_id),
            )
            db.execute(
                "INSERT INTO usage (session_id, message_id, model, at, input, output, cache_read, cache_write,"
                " cache_write_1h, sidechain) VALUES (?, 'm', 'x', '2020-01-01T00:00:00.000Z', ?, 0, 0, 0, 0, 0)",
                (id, tokens_a_minute),
            )
    stage.run("daemon", "start")


def kinds(stage: Stage, agent: Agent) -> list[str]:
    return [w["kind"] for w in stage.session(agent.id)["warnings"]]


def test_fast_use_of_tokens_is_told_when_the_type_has_a_history(stage: Stage, agent: Agent) -> None:
    complete(stage, agent.id, 5, 100)
    use(agent, 1, 3000, 400)
    use(agent, 2, 3000, 200)
    use(agent, 3, 3000, 30)
    until(lambda: "burn" in kinds(stage, agent), "the agent uses tokens fast")
    (found,) = stage.session(agent.id)["warnings"]
    assert (found["value"], found["limit"]) == (1200, 500)
    assert found["evidence"] == "1,200 tokens a minute for 5min (usual for its type: 100)"
    agent.send_event("Stop", last_assistant_message="Reading on.")
    until(lambda: kinds(stage, agent) == [], "the warning has ended")
