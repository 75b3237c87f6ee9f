"""The start of an agent that is reported late, as on a busy machine. The test plays the hooks of the agent."""

from collections.abc import Iterator

import pytest

from tests.played_agent import Agent
from tests.sim.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as opened:
        yield opened


@pytest.fixture
def agent(stage: Stage) -> Iterator[Agent]:
    """An agent with a prompt, which has reported nothing yet."""
    agent = Agent(stage, stage.spawn("Plain", "work")["session_id"], starts=False)
    yield agent
    agent.end()


def events_of(stage: Stage, agent: Agent) -> list[str]:
    stage.settle()
    return [event["type"] for event in stage.events() if event["session_id"] == agent.id]


def test_session_with_a_prompt_is_not_idle_before_its_first_turn_when_its_start_is_reported_late(
    stage: Stage, agent: Agent
) -> None:
    agent.publish("idle")
    stage.wait(0.5)
    start = agent.event("SessionStart", source="startup")
    program = stage.world.programs.running[agent.id]
    for glyph in ("\N{BRAILLE PATTERN DOTS-5}", "\N{EIGHT SPOKED ASTERISK}"):
        program.title(f"{glyph} work")
        stage.wait(3.0)
    agent.send_late(start)
    assert events_of(stage, agent) == ["spawned", "started"]
    agent.send_event("UserPromptSubmit", prompt="work")
    agent.send_event("Stop")
    assert events_of(stage, agent) == ["spawned", "started", "idle"]
