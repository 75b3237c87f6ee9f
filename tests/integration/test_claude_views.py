"""Requests of the real Claude Code that a person answers in the live views, and a fork that a person starts there."""

import json

import pytest

from tests.browser import Visitor, chromium
from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.cli.tui.test_pages import enter
from tests.cli.tui.view import top
from tests.integration.test_claude_requests import Agent
from tests.integration.test_claude_restore import turn_request
from tests.scripted_api import ScriptedApi, tool
from tests.web_server import web_server

pytestmark = pytest.mark.processes

COMPUTES = tool("Bash", command="python3 -c 'print(6*7)'", description="Compute the answer")
REMOVES = tool("Bash", command="rm -rf build", description="Remove the build")

api = scripted_api("function")
claudes = claude_instance("function")


def prompt_with(name: str, call: str) -> str:
    return f"{name} {call}[[then]][[text:{name} goes on]]"


async def test_permission_of_claude_is_decided_in_top(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    agent = Agent(claudes, api)
    async with top(claudes, (140, 40)) as view:
        key = agent.ask(prompt_with("granted", COMPUTES))["request_id"]
        await view.select_request(key)
        await view.shows("tool: Bash", "command:", "| python3 -c 'print(6*7)'", "| Compute the answer")
        await view.press("a")
        await view.shows(f"done: sm approve {key}")
        assert agent.result("granted") == (False, "42")
        agent.wait_rest()
        assert "granted goes on" in claudes.screen(agent.id)
        key = agent.ask(prompt_with("refused", REMOVES))["request_id"]
        await view.select_request(key)
        await view.shows("| rm -rf build")
        await view.press("d")
        await enter(view, "the tests need it")
        await view.shows(f"done: sm deny {key} 'the tests need it'")
        is_error, text = agent.result("refused")
        assert is_error and "the tests need it" in text
        agent.wait_rest()
        assert "refused goes on" in claudes.screen(agent.id)


async def test_fork_in_top_copies_the_conversation(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    session_id = claudes.spawn("Plain", "common-1", "--name", "origin")["session_id"]
    claudes.idle(session_id)
    async with top(claudes, (140, 40)) as view:
        await view.select(session_id)
        await view.press("f")
        await enter(view, "other")
        await view.shows(f"done: sm fork {session_id} --name other", "plain-other")
    fork_id = claudes.session("plain-other")["session_id"]
    claudes.idle(fork_id)
    claudes.prompt(fork_id, "own-1")
    assert "common-1" in json.dumps(turn_request(api, "own-1").body["messages"])
    claudes.idle(session_id)


def test_permission_of_claude_is_decided_in_the_page(claudes: ClaudeInstance, api: ScriptedApi) -> None:
    agent = Agent(claudes, api)
    with (
        chromium() as browser,
        web_server(claudes, "--scope", "all") as server,
        Visitor(browser, server).tab() as tab,
    ):
        key = agent.ask(prompt_with("granted", COMPUTES))["request_id"]
        entry = tab.request(key)
        entry.locator(".need-open").click()
        asked = [line.strip() for line in entry.inner_text().splitlines()]
        place = asked.index("command:")
        assert asked[place + 1 : place + 4] == [
            *("| python3 -c 'print(6*7)'", "description:", "| Compute the answer"),
        ]
        tab.request(key).locator('[data-act="approve"]').click()
        assert agent.result("granted") == (False, "42")
        agent.wait_rest()
        tab.until(lambda: "idle" in tab.row(agent.id).inner_text(), "the agent goes on to its end")
        key = agent.ask(prompt_with("refused", REMOVES))["request_id"]
        entry = tab.request(key)
        assert "Bash: rm -rf build" in entry.inner_text()
        entry.locator('[data-act="deny"]').click()
        entry.locator("textarea").fill("the tests need it")
        entry.locator('[data-act="submit"]').click()
        is_error, text = agent.result("refused")
        assert is_error and "the tests need it" in text
        agent.wait_rest()
        assert "refused goes on" in claudes.screen(agent.id)
