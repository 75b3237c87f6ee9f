"""Reads of an agent's sources that need no terminal."""

from dataclasses import replace
from typing import Any

import pytest

from sm.core.observation import Activity, Observation, Source
from sm.monitor.agent import Agent
from sm.monitor.evidence import Ledger
from sm.monitor.sources import awaits_prompt, unknown_problem
from sm.providers.base import Fork
from sm.providers.claude.terminal import ClaudeScreenReader
from sm.providers.readers import FIRST_TURN_S, Readers
from tests.samples import session

ID = "1a2b3c4d"
UNKNOWN_DIALOG = """
────────────────────────────────────────────────────────────────────────────────────────────────────
  Renderer Error

  /home/kim/.claude/settings.json
  ├ model: Expected string, but received number
  └ permissions.allow: Expected array, but received string

  \N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} 1. Fix with Claude
    2. Exit and fix manually

  Enter to confirm · Esc to cancel
""".splitlines()
"""A dialog like those of claude, which the screen reader does not know as an obstacle."""


@pytest.fixture
def agent() -> Agent:
    return Agent(ID, Readers(screen=ClaudeScreenReader()), Ledger(), started_s=1000.0)


def test_unknown_problem_quotes_the_screen_of_an_agent_that_does_not_start(agent: Agent) -> None:
    assert ClaudeScreenReader().start_problem(UNKNOWN_DIALOG, "/srv") is None
    assert unknown_problem(agent, "engineer-x", UNKNOWN_DIALOG, 1007.0) is None
    problem = unknown_problem(agent, "engineer-x", UNKNOWN_DIALOG, 1011.0)
    assert problem is not None
    assert problem.message.startswith(
        "it does not start, and its screen shows: Renderer Error / /home/kim/.claude/settings.json / "
        "model: Expected string, but received number / permissions.allow: "
    )
    assert problem.hint == "answer in its terminal: sm attach engineer-x"
    assert len(problem.message) < 260, "at most 200 characters of the screen"


def test_unknown_problem_waits_until_the_screen_no_longer_changes(agent: Agent) -> None:
    assert unknown_problem(agent, "engineer-x", ["loading 10%"], 1011.0) is None
    assert agent.screen_due_s == 1013.0
    assert unknown_problem(agent, "engineer-x", ["loading 20%"], 1013.0) is None
    assert unknown_problem(agent, "engineer-x", ["loading 20%"], 1015.0) is not None


@pytest.mark.parametrize("lines", [[], ["", "   "], ["─────", "╭──╮"]])
def test_unknown_problem_is_none_for_a_screen_without_words(agent: Agent, lines: list[str]) -> None:
    assert unknown_problem(agent, "engineer-x", lines, 1011.0) is None
    assert unknown_problem(agent, "engineer-x", lines, 1030.0) is None


@pytest.mark.parametrize("start_took_s", [0.0, FIRST_TURN_S + 10])
def test_idle_agent_awaits_its_prompt_for_some_time_after_a_start_of_any_length(
    agent: Agent, start_took_s: float
) -> None:
    published_s = agent.started_s + start_took_s
    idle = Observation(Source.STATE_FILE, Activity.IDLE, published_s, "status idle")
    assert not awaits_prompt(agent, idle, published_s)
    agent.expects_turn = True
    assert awaits_prompt(agent, idle, published_s + FIRST_TURN_S - 1)
    assert not awaits_prompt(agent, idle, published_s + FIRST_TURN_S)
    busy = Observation(Source.STATE_FILE, Activity.BUSY, published_s, "status busy")
    assert not awaits_prompt(agent, busy, published_s)


CREATED, STARTED = "2026-11-27T21:00:00.000Z", "2026-11-27T21:05:00.000Z"


@pytest.mark.parametrize(
    ("is_fork", "begins", "runs", "since"),
    [
        (False, (), 1, CREATED),
        (False, ("--session-id", "c0ffee"), 1, ""),
        (True, (), 1, CREATED),
        (True, (), 2, STARTED),
        (False, (), 2, CREATED),
    ],
)
def test_lines_are_own_since_the_fork_that_copied_them(
    agent: Agent, is_fork: bool, begins: tuple[str, ...], runs: int, since: str
) -> None:
    """A fork that ended before its first prompt copies its original again when it is restored."""
    agent.fork, agent.begins = Fork("0ld", "c0ffee") if is_fork else None, begins
    facts: dict[str, Any] = {
        "created_at": CREATED,
        "started_at": STARTED,
        "token_hash": "x",
        "conversation": "c0ffee",
    }
    fork = replace(session(ID), runs=runs, **facts)
    assert agent.own_since(fork, "/home/kim/.claude/projects/-srv/c0ffee.jsonl") == since
