"""Turns of a played claude, and what the daemon has told about them, on a real or a played stage."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Protocol

from tests.played_agent import Agent


class WithState(Protocol):
    @property
    def state(self) -> Path: ...


def notices(stage: WithState) -> list[str]:
    """The texts of all notices of the instance, without the numbers of requests."""
    with closing(sqlite3.connect(stage.state / "sm.db")) as db:
        rows = db.execute("SELECT text FROM notices ORDER BY id").fetchall()
    return [re.sub(r"\br\d+\b", "rN", text) for (text,) in rows]


def told(stage: WithState, agent: Agent, words: str) -> list[str]:
    """The notices about the agent with these words."""
    return [line for line in notices(stage) if f"({agent.id}) {words}" in line]


def turn(agent: Agent, text: str, prompt: str = "go on") -> None:
    """Play a whole turn that ends with `text`."""
    agent.send_event("UserPromptSubmit", prompt=prompt, prompt_id=os.urandom(4).hex())
    agent.send_event("Stop", last_assistant_message=text)


def begin_turn(agent: Agent) -> None:
    agent.publish("busy")
    agent.send_event("UserPromptSubmit", prompt="go on", prompt_id=os.urandom(4).hex())


def end_turn(agent: Agent, text: str) -> None:
    """End the turn with `text`. The user's Stop hook still runs."""
    agent.append_turn(text)
    agent.send_event("Stop", last_assistant_message=text)


def leave_turn(agent: Agent) -> None:
    """Let the user's Stop hook end."""
    agent.append_turn_end()
    agent.publish("idle")
