"""The first turn of an agent waits for the tools of sm. The test plays the hook of its prompt and its MCP client."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.monitor.own_tools import LIMIT_S, SETTLES_S, SLOW_LIMIT_S, SLOW_START_S
from tests.cli.mcp.client import request
from tests.played.cli.hook.command import Running
from tests.played_agent import Agent
from tests.sim.hook import start_hook
from tests.sim.pump import PlayedPump, played_pumps
from tests.sim.stage import Instance, Stage

MISSED = "its first request had no tools of sm"
SETTLE_S = SETTLES_S[0]
SPARE_S = 0.1
"""The hook's own time."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as opened:
        opened.enter(played_pumps(opened.loop))
        yield opened


class Prompt:
    """The hook of a prompt, which holds the turn."""

    def __init__(self, stage: Stage, agent: Agent, *options: str) -> None:
        self._stage = stage
        event = os.memfd_create("event")
        os.write(event, json.dumps(agent.event("UserPromptSubmit", prompt="work")["payload"]).encode())
        os.lseek(event, 0, os.SEEK_SET)
        files = {0: event, 1: os.memfd_create("output")}
        environ = stage.world.programs.running[agent.id].process.environ
        self._began_s = stage.loop.time()
        hook = start_hook(stage.command, "claude", environ, Path("/"), files, *options)
        self._running = Running(hook, files, None)

    def held_s(self) -> float:
        """Wait for the end of the hook, and return how long it took."""
        self._running.ended()
        return self._stage.loop.time() - self._began_s


def submit(stage: Stage, agent: Agent) -> Prompt:
    return Prompt(stage, agent, "--await-tools")


def list_tools(stage: Instance, session_id: str) -> None:
    """Start `sm mcp` as claude does, and read the list of tools."""
    pump = PlayedPump(stage, stage.world.programs.running[session_id].process)
    pump.greet()
    pump.send(request("tools/list", 1, {}))
    assert pump.read()["result"]["tools"]


def missed(stage: Stage, agent: Agent) -> list[str]:
    """The sentences of `sm why` about a first request without tools."""
    stage.settle()
    return [fact for fact in stage.json("why", agent.id)["facts"] if MISSED in fact]


def test_first_turn_begins_when_the_agent_has_the_tools(stage: Stage) -> None:
    agent = stage.agent()
    prompt = submit(stage, agent)
    stage.wait(1.0)
    list_tools(stage, agent.id)
    assert 1.0 < prompt.held_s() < 1.0 + SETTLE_S + SPARE_S
    assert missed(stage, agent) == []


def test_first_turn_begins_at_once_when_the_tools_were_read_before(stage: Stage) -> None:
    agent = stage.agent()
    list_tools(stage, agent.id)
    stage.wait(1.0)
    assert submit(stage, agent).held_s() < SPARE_S
    assert missed(stage, agent) == []


def test_turn_without_tools_begins_at_the_limit_and_is_known_also_after_a_restart(stage: Stage) -> None:
    agent = stage.agent()
    assert LIMIT_S < submit(stage, agent).held_s() < LIMIT_S + SPARE_S
    (said,) = missed(stage, agent)
    assert said.endswith("after 2.0 s, and has not listed them since")
    assert said in stage.sm("why", agent.id)
    list_tools(stage, agent.id)
    stage.settle()
    stage.kill_daemon()
    stage.start_daemon()
    (said,) = missed(stage, agent)
    assert "later requests have them" in said


def test_turn_without_tools_stays_known_when_the_next_daemon_sees_the_tools(stage: Stage) -> None:
    agent = stage.agent()
    submit(stage, agent).held_s()
    stage.settle()
    stage.kill_daemon()
    stage.start_daemon()
    list_tools(stage, agent.id)
    (said,) = missed(stage, agent)
    assert said.startswith(f"{MISSED}: sm mcp had not listed them after 2.0 s")
    assert "later requests have them" in said


def test_limit_is_longer_for_an_agent_that_started_slowly(stage: Stage) -> None:
    agent = stage.agent()
    stage.wait(SLOW_START_S)
    assert SLOW_LIMIT_S < submit(stage, agent).held_s() < SLOW_LIMIT_S + SPARE_S


def test_only_the_first_turn_of_a_process_waits(stage: Stage) -> None:
    agent = stage.agent()
    submit(stage, agent).held_s()
    assert submit(stage, agent).held_s() < SPARE_S
    stage.settle()
    stage.kill_daemon()
    stage.start_daemon()
    assert submit(stage, agent).held_s() < SPARE_S


def test_daemon_that_starts_again_knows_that_the_tools_were_read(stage: Stage) -> None:
    agent = stage.agent()
    list_tools(stage, agent.id)
    stage.settle()
    stage.kill_daemon()
    stage.start_daemon()
    assert submit(stage, agent).held_s() < SPARE_S
    assert missed(stage, agent) == []


def test_turn_is_held_on_when_the_daemon_restarts(stage: Stage) -> None:
    agent = stage.agent()
    prompt = submit(stage, agent)
    stage.wait(0.5)
    stage.kill_daemon()
    stage.start_daemon()
    list_tools(stage, agent.id)
    assert 0.5 < prompt.held_s() < 1.5
    assert missed(stage, agent) == []


def test_turn_is_not_held_while_the_daemon_is_away_and_is_known_later(stage: Stage) -> None:
    agent = stage.agent()
    stage.kill_daemon()
    assert submit(stage, agent).held_s() < SPARE_S
    stage.start_daemon()
    list_tools(stage, agent.id)
    (said,) = missed(stage, agent)
    assert "after 0.0 s" in said


def test_turn_of_an_agent_without_the_server_is_not_held(stage: Stage) -> None:
    agent = stage.agent()
    assert Prompt(stage, agent).held_s() < SPARE_S
    assert missed(stage, agent) == []


def test_restored_process_waits_for_its_own_tools(stage: Stage) -> None:
    agent = stage.agent()
    list_tools(stage, agent.id)
    submit(stage, agent).held_s()
    agent.append_turn("I have begun.")
    stage.sm("kill", agent.id)
    stage.sm("restore", agent.id)
    agent = Agent(stage, agent.id)
    prompt = submit(stage, agent)
    stage.wait(0.5)
    list_tools(stage, agent.id)
    assert 0.5 < prompt.held_s() < 0.5 + SETTLES_S[1] + SPARE_S
    assert missed(stage, agent) == []
