"""Warnings that the bot reports: those of which the operator gets a notice, once for an episode."""

from collections.abc import Iterator

import pytest

from tests.played_agent import Agent
from tests.sim.stage import BOX, Stage, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_api import Person, TelegramApi
from tests.telegram_fixtures import bot_api, person
from tests.telegram_instance import configure, connect, start

SETTINGS = """
daemon: {ignore_evidence: [screen, title]}
warnings: {crash_loop: {do: "%s"}}
"""
OWNER = 1001

api = bot_api(PlayedTelegramApi)
ann = person(OWNER, "Ann", has_started=True)


@pytest.fixture(params=["notice"])
def stage(api: PlayedTelegramApi, ann: Person, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage whose owner has written to the bot. The parameter is the step after a crash."""
    with Stage(SETTINGS % request.param, BOX) as stage:
        stage.kill_daemon()
        text = stage.config.read_text()
        fragile = "commands:\n  Fragile: {command: [sh, -c], restart: on-failure, restart_max: 2}\n"
        stage.config.write_text(text.replace("commands:\n", fragile))
        api.serve(stage)
        configure(stage, api)
        start(stage, api)
        connect(api, ann)
        yield stage


def fail(agent: Agent, number: int) -> None:
    """Let the agent call a tool that fails as before."""
    id = f"toolu_{number}"
    use = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make"}}
    agent.write_message({"role": "assistant", "content": [use]})
    agent.write_tool_result(id, "no rule", is_error=True)


def end_another(stage: Stage, api: TelegramApi, name: str) -> None:
    """End a session, whose report follows all earlier ones."""
    stage.sm("kill", stage.spawn("Sh", "sleep 1000", "--name", name)["session_id"])
    api.wait_for_message(OWNER, f"sh-{name}")


def test_nudged_agent_is_reported_once_when_it_goes_on(stage: Stage, api: TelegramApi) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id="p1")
    stage.in_status(agent.id, "running")
    for number in range(3):
        fail(agent, number)
    until(lambda: stage.session(agent.id)["warnings"], "the loop is found")
    end_another(stage, api, "first")
    assert api.messages(OWNER, agent.id) == []
    for number in range(3, 7):
        fail(agent, number)
    api.wait_for_message(OWNER, "repeats itself")
    agent.send_event("Stop", last_assistant_message="I give up.")
    until(lambda: not stage.session(agent.id)["warnings"], "the loop has ended")
    end_another(stage, api, "second")
    (message,) = api.messages(OWNER, agent.id)
    assert "make failed 6 times with: no rule" in message.text


@pytest.mark.parametrize(("stage", "times"), [("notice", 1), ("off", 0)], indirect=["stage"])
def test_only_the_first_crash_is_reported_and_none_when_the_warning_is_off(
    stage: Stage, api: TelegramApi, times: int
) -> None:
    session = stage.spawn(
        "Fragile", "exit 3"
    )  # restarts after 5 and 10 s; a killed daemon would repeat reports
    stage.ended(session["session_id"])
    end_another(stage, api, "last")
    assert len(api.messages(OWNER, "has crashed")) == times
