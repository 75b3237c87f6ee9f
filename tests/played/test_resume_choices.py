"""`claude.resume`: what a restored claude does with a long and old conversation."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.played_agent import Agent
from tests.sim.programs import Running
from tests.sim.stage import Stage, stand_in, until

LIMITS = ("CLAUDE_CODE_RESUME_THRESHOLD_MINUTES", "CLAUDE_CODE_RESUME_TOKEN_THRESHOLD")
HOUR_S = 3600.0


def conversation_of(program: Running) -> Path | None:
    argv = program.argv
    if "--session-id" not in argv:
        return None
    place = re.sub("[^A-Za-z0-9]", "-", program.process.cwd)
    name = f"{argv[argv.index('--session-id') + 1]}.jsonl"
    return Path(program.environ["HOME"]) / ".claude" / "projects" / place / name


async def conversing(program: Running) -> None:
    """Write the beginning of a conversation: sm resumes none that is gone."""
    path = conversation_of(program)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        line = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "x"}}
        path.write_text(f"{json.dumps(line)}\n")
    await stand_in(program)


class ResumeStage(Stage):
    def __init__(self, choice: str) -> None:
        more = "" if choice == "default" else f"  resume: {choice}\n"
        super().__init__(more, conversing)

    def used_agent(self, tokens: int, age_s: float) -> Agent:
        """An agent whose conversation has so many tokens, and whose last turn ended so long ago."""
        agent = self.agent()
        path = conversation_of(self.world.programs.running[agent.id])
        assert path is not None
        agent.conversation, agent.transcript = path.stem, path
        agent.send_event("UserPromptSubmit", prompt="work")
        message = {
            "id": "m1",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [{"type": "text", "text": "done"}],
            "usage": {"input_tokens": tokens, "output_tokens": 5},
        }
        agent.write_message(message)
        agent.send_event("Stop")
        agent.write_turn_end()
        self.in_status(agent.id, "idle")
        self.world.clocks.step(age_s)
        return agent

    def restored(self, agent: Agent) -> list[str]:
        """Restore the agent, and return the messages that wait for it."""
        self.sm("kill", agent.id)
        self.ended(agent.id)
        self.sm("restore", agent.id)
        until(lambda: agent.id in self.world.programs.running, "the agent runs again")
        return [m["text"] for m in self.json("log", agent.id) if m["status"] in ("queued", "delivering")]


@pytest.fixture
def choice(request: pytest.FixtureRequest) -> Iterator[ResumeStage]:
    with ResumeStage(request.param) as stage:
        yield stage


@pytest.mark.parametrize(
    ("choice", "is_asked"),
    [("default", False), ("full", False), ("summary", False), ("ask", True)],
    indirect=["choice"],
)
def test_claude_asks_about_an_old_conversation_only_where_that_is_configured(
    choice: ResumeStage, is_asked: bool
) -> None:
    agent = choice.used_agent(150_000, 2 * HOUR_S)
    choice.restored(agent)
    environ = choice.world.programs.running[agent.id].environ
    assert [name in environ for name in LIMITS] == [not is_asked] * 2


@pytest.mark.parametrize(
    ("choice", "tokens", "age_s", "is_summarized"),
    [
        ("summary", 150_000, 2 * HOUR_S, True),
        ("summary", 150_000, HOUR_S, False),
        ("summary", 50_000, 2 * HOUR_S, False),
        ("full", 150_000, 2 * HOUR_S, False),
        ("ask", 150_000, 2 * HOUR_S, False),
    ],
    indirect=["choice"],
)
def test_long_and_old_conversation_is_summarized_where_that_is_configured(
    choice: ResumeStage, tokens: int, age_s: float, is_summarized: bool
) -> None:
    agent = choice.used_agent(tokens, age_s)
    assert ("/compact" in choice.restored(agent)) is is_summarized
