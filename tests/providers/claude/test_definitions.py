"""What the settings of a definition file mean to claude."""

import pytest

from sm.config import AgentConfig, Definition, read_definition
from sm.providers.claude.definitions import ClaudeDefinitions

DEFINITIONS = ClaudeDefinitions({})


def applied(settings: str) -> tuple[AgentConfig, tuple[str, ...]]:
    content = f"---\n{settings}\n---\nBe strict.\n".encode()
    return DEFINITIONS.applied(read_definition(content, "reviewer", ("claude",)))


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("Bash, Read", ("Bash", "Read")),
        ("", None),
        ("'*'", None),
        ("['*']", None),
        ("Bash, mcp__probe__ping, mcp__other", ("Bash",)),
    ],
)
def test_tools_of_servers_are_not_given_by_a_file(said: str, tools: tuple[str, ...] | None) -> None:
    agent, warnings = applied(f"tools: {said}")
    assert (agent.tools, warnings) == (tools, ())


def test_part_of_a_tool_is_left_out_rather_than_given_whole() -> None:
    agent, warnings = applied("tools: Read, Bash(git log, git diff)")
    assert agent.tools == ("Read",)
    assert warnings == (
        "`tools`: Bash(git log, git diff) is left out: a tool is given whole or not at all",
        "without Bash in `tools` it cannot report: sm complete, sm ask",
    )


def test_no_tools_at_all_cannot_report_either() -> None:
    agent, warnings = applied("tools: []")
    assert (agent.tools, len(warnings)) == ((), 1)


def test_tools_that_are_refused_are_refused_by_claude() -> None:
    agent, warnings = applied("disallowedTools: Write, Bash(rm *)")
    assert agent.args == ("--disallowedTools", "Write,Bash(rm *)")
    assert warnings == ()


def test_everything_else_is_as_the_file_has_it() -> None:
    config = AgentConfig(model="opus", description="reviews", prompt="Be strict.", spawnable=True)
    assert DEFINITIONS.applied(Definition(config)) == (config, ())


@pytest.mark.parametrize(
    ("added", "environment", "directory"),
    [
        ({}, {"HOME": "/home/me"}, "/home/me/.claude/agents"),
        ({}, {"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/cfg/"}, "/cfg/agents"),
        ({"CLAUDE_CONFIG_DIR": "/set"}, {"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/cfg"}, "/set/agents"),
        ({}, {"HOME": "relative"}, None),
        ({}, {"HOME": "/a\0b"}, None),
    ],
)
def test_definitions_of_the_user_lie_in_the_directory_of_claude(
    added: dict[str, str], environment: dict[str, str], directory: str | None
) -> None:
    assert ClaudeDefinitions(added).user_directory(environment) == directory
