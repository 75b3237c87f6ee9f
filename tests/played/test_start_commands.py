"""Prompts that begin with a slash: text for everybody, and a command of claude if the operator asks for it."""

import json
from typing import Any

from tests.fixtures import context_fixture
from tests.sim.stage import Stage

ALLOWED = "\nchild_agents: {allow_args: true}\n"
REVIEW = "/review the code"

stage = context_fixture("function", Stage)
allowing = context_fixture("function", Stage, ALLOWED)


def argument(stage: Stage, session: dict[str, Any]) -> str:
    """The prompt in the command line of an agent."""
    return stage.world.programs.running[session["session_id"]].argv[-1]


def test_prompt_with_a_slash_is_text_unless_the_operator_asks_for_a_command(stage: Stage) -> None:
    assert argument(stage, stage.spawn("Plain", REVIEW)) == f"Task: {REVIEW}"
    assert argument(stage, stage.spawn("Plain", f" {REVIEW}\n", "--as-command")) == REVIEW


def test_agent_may_not_start_another_one_with_a_command(allowing: Stage) -> None:
    agent = allowing.agent()
    error = allowing.refused(
        "spawn", "Plain", REVIEW, "--as-command", exit_code=5, env=allowing.as_session(agent.id)
    )
    assert "only the operator may use --as-command" in error
    body = {"agent_type": "Plain", "prompt": REVIEW, "as_command": True}
    answer = allowing.post_as(agent.id, "/v1/sessions", body)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (403, "not_permitted")
    assert [s["session_id"] for s in allowing.json("all")] == [agent.id]


def test_command_must_be_one_line_that_begins_with_a_slash(stage: Stage) -> None:
    for prompt in ("review the code", "/review\nthe code", "/", "/etc/hosts is a file", "!touch x"):
        error = stage.refused("spawn", "Plain", prompt, "--as-command", exit_code=2)
        assert "must be one line that begins with / and the name of a command" in error, prompt
    assert stage.json("all") == []


def test_command_needs_a_prompt_and_a_program_that_has_commands(stage: Stage) -> None:
    assert "--as-command needs a prompt" in stage.refused("spawn", "Plain", "--as-command", exit_code=2)
    error = stage.refused("spawn", "Sh", "/x", "--as-command", exit_code=2)
    assert "--as-command is not supported by agent type Sh" in error
