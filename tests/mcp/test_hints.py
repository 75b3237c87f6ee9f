"""Hints of tools name the tools that do the same as their commands."""

import pytest

from sm.cli.group import COMMANDS
from sm.mcp import hints
from sm.mcp.tools import TOOLS
from sm.mcp.tools.control import control_session

ALL = tuple(TOOLS)


@pytest.mark.parametrize(
    ("hint", "more"),
    [
        ("list sessions: sm all", " [tool list_workspace_sessions]"),
        ("end one of them: sm kill SESSION", " [tool control_session, action kill]"),
        ("sm approve r5, or: sm deny r5", " [tool answer_request]"),
        ("sm send x TEXT; or: sm kill x", " [tool send_message; tool control_session, action kill]"),
        ("add --working-dir PATH", " [argument working_dir]"),
        ("--budget usd=5,tokens=2M,minutes=90", " [argument budget]"),
        ("sm daemon restart", ""),
        ("sm gives its agents a server of this name", ""),
    ],
)
def test_hint_is_followed_by_the_tools_for_its_commands(hint: str, more: str) -> None:
    assert hints.with_tools(hint, ALL) == hint + more


def test_hint_names_no_tool_that_the_caller_has_not() -> None:
    assert hints.with_tools("sm kill x; or: sm wait x", ["wait_for_sessions"]) == (
        "sm kill x; or: sm wait x [tool wait_for_sessions]"
    )
    assert hints.with_tools(None, ALL) is None


def test_every_named_command_tool_and_action_exists() -> None:
    assert set(hints._TOOLS) <= {name for _, name, _ in COMMANDS}
    assert {tool for tool, _ in hints._TOOLS.values()} <= set(TOOLS)
    actions = TOOLS[control_session.__name__].input["properties"]["action"]["enum"]
    assert {action for _, action in hints._TOOLS.values() if action} <= set(actions)
