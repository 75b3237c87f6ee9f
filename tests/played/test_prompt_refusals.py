"""`sm send --wait` for a prompt that the hook of sm has reported, and a hook of the user may still refuse."""

from collections.abc import Iterator
from typing import Any

import pytest

from sm.client.http import Client
from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until

SETTINGS = "daemon: {ignore_evidence: [screen, title]}\n"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(SETTINGS, BOX) as stage:
        yield stage


@pytest.fixture
def agent(stage: Stage) -> Agent:
    agent = stage.agent()
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{agent.id}-1")
    agent.send_event("Stop", last_assistant_message="Hello")
    stage.in_status(agent.id, "idle")
    return agent


def report_by_hook(stage: Stage, agent: Agent) -> str:
    """Report the message that is being typed as the prompt hook does; return its letter."""
    client = Client(str(stage.socket))

    def typed() -> dict[str, Any] | None:
        found = client.get("/v1/messages", {"session": agent.id})
        return found[-1] if found and found[-1]["status"] == "delivering" else None

    message = until(typed, "the message is being typed")
    letter = f"[sm] from operator, message {message['message_id']}\n{message['text']}"
    agent.send_event("UserPromptSubmit", prompt=letter, prompt_id=f"{agent.id}-2")
    found = client.get(f"/v1/messages/{message['message_id']}")
    assert (found["status"], found["settled"]) == ("submitted", False)
    return letter


def refuse(agent: Agent, letter: str) -> None:
    words = f"UserPromptSubmit operation blocked by hook:\nnot today\n\nOriginal prompt: {letter}"
    agent.write_line("system", subtype="informational", preventContinuation=True, content=words)


def test_send_with_wait_exits_4_when_a_hook_of_the_user_refuses_the_reported_prompt(
    stage: Stage, agent: Agent
) -> None:
    sent = stage.start_command("send", agent.id, "run the tests", "--wait", "120")
    letter = report_by_hook(stage, agent)
    refuse(agent, letter)
    out, err = sent.communicate()
    assert (sent.returncode, out) == (4, "")
    assert "is failed: a hook of the user refused the message" in err


def test_send_with_wait_exits_0_when_the_conversation_has_the_reported_prompt(
    stage: Stage, agent: Agent
) -> None:
    sent = stage.start_command("send", agent.id, "run the tests", "--wait", "120")
    letter = report_by_hook(stage, agent)
    agent.write_line("user", message={"role": "user", "content": letter}, promptSource="typed", uuid="u1")
    out, err = sent.communicate()
    assert (sent.returncode, err) == (0, "")
    assert out.startswith("Input sent to session ")


def test_send_without_wait_returns_at_the_hook_and_the_inbox_names_a_later_refusal(
    stage: Stage, agent: Agent
) -> None:
    sent = stage.start_command("send", agent.id, "run the tests")
    letter = report_by_hook(stage, agent)
    out, _ = sent.communicate()
    assert sent.returncode == 0
    assert out.startswith("Input sent to session ")
    refuse(agent, letter)
    until(lambda: "failed: a hook of the user refused the message" in stage.sm("inbox"), "the notice")
