"""Warnings of agents whose hooks or tools do not reach sm."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sm.capabilities.warnings.listeners.links import WAITS_S
from tests.played.test_first_turns import list_tools
from tests.played_agent import Agent
from tests.sim.pump import played_pumps
from tests.sim.stage import Stage, until

TOOLS = "has no tools of sm"
HOOKS = "reports nothing through its hooks"


class SilentAgent(Agent):
    """An agent whose hooks do not reach sm."""

    def send_event(self, name: str, **more: object) -> None:
        """Send nothing."""


class LinkStage(Stage):
    def kinds(self, agent: Agent) -> list[str]:
        return [warning["kind"] for warning in self.session(agent.id)["warnings"]]

    def pass_time(self, seconds: float = WAITS_S + 5) -> None:
        end = self.now() + timedelta(seconds=seconds)
        until(lambda: self.now() >= end, "the time has passed", seconds + 60)

    def agent_with_tools(self, **options: Any) -> Agent:
        agent = self.agent(**options)
        list_tools(self, agent.id)
        return agent


@pytest.fixture
def stage() -> Iterator[LinkStage]:
    with LinkStage() as opened:
        opened.enter(played_pumps(opened.loop))
        yield opened


@pytest.mark.parametrize("crash", [False, True])
def test_parent_is_warned_of_an_agent_that_has_not_listed_the_tools(stage: LinkStage, crash: bool) -> None:
    parent = stage.agent_with_tools()
    agent = stage.agent(env={"SM_SESSION_ID": parent.id})
    agent.send_event("UserPromptSubmit", prompt="work")
    assert stage.kinds(agent) == []
    if crash:
        stage.restart()
    stage.pass_time()
    assert stage.kinds(agent) == ["tools_missing"]
    until(lambda: any(TOOLS in text for text in stage.messages(parent)), "the parent is told")
    (told,) = [text for text in stage.messages(parent) if TOOLS in text]
    assert "its sm mcp has not listed them since its prompt for 30 s" in told
    assert told.endswith(
        f"connects again (sm attach {agent.id}), or: sm kill {agent.id}, then: sm restore {agent.id}"
    )
    list_tools(stage, agent.id)
    until(lambda: stage.kinds(agent) == [], "the warning has ended")


def test_agent_that_lists_the_tools_late_is_no_warning(stage: LinkStage) -> None:
    agent = stage.agent()
    agent.send_event("UserPromptSubmit", prompt="work")
    list_tools(stage, agent.id)
    stage.pass_time()
    assert stage.kinds(agent) == []


def test_agent_that_listed_the_tools_for_an_earlier_daemon_is_no_warning(stage: LinkStage) -> None:
    agent = stage.agent_with_tools()
    agent.send_event("UserPromptSubmit", prompt="work")
    stage.settle()
    stage.restart()
    agent.send_event("UserPromptSubmit", prompt="more")
    stage.pass_time()
    assert stage.kinds(agent) == []


def test_parent_is_warned_of_an_agent_whose_hooks_do_not_report(stage: LinkStage) -> None:
    parent = stage.agent_with_tools()
    agent = stage.agent_with_tools(env={"SM_SESSION_ID": parent.id})
    agent.send_event("UserPromptSubmit", prompt="work")
    agent.send_event("Stop")
    stage.pass_time(60)
    agent.append_turn("done")
    agent.append_turn_end()
    until(lambda: stage.kinds(agent) == ["hooks_missing"], "the warning is open")
    until(lambda: any(HOOKS in text for text in stage.messages(parent)), "the parent is told")
    (told,) = [text for text in stage.messages(parent) if HOOKS in text]
    assert f"look with: sm why {agent.id}; sm daemon restart" in told
    agent.send_event("Stop")
    until(lambda: stage.kinds(agent) == [], "the warning has ended")


def test_turn_of_which_a_hook_reports_is_no_warning(stage: LinkStage) -> None:
    agent = stage.agent_with_tools()
    stage.pass_time(60)
    agent.append_turn("done")
    agent.send_event("Stop")
    agent.append_turn_end()
    stage.pass_time()
    assert stage.kinds(agent) == []


def test_agent_that_never_ran_a_hook_is_a_warning_in_its_first_turn() -> None:
    with LinkStage() as stage:
        agent = SilentAgent(stage, stage.spawn("Plain", "work")["session_id"])
        stage.pass_time(5)
        agent.publish("busy")
        until(lambda: "hooks_missing" in stage.kinds(agent), "the warning is open")


def test_work_that_a_restarted_daemon_finds_is_no_warning(stage: LinkStage) -> None:
    agent = stage.agent_with_tools()
    agent.send_event("UserPromptSubmit", prompt="work")
    agent.publish("busy")
    stage.pass_time(60)
    stage.restart()
    stage.pass_time(60)
    assert stage.kinds(agent) == []
