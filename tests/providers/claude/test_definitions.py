"""Settings of definition files, applied to claude."""

import pytest

from sm.config import AgentConfig, Definition, read_definition
from sm.providers.claude.definitions import ClaudeDefinitions

DEFINITIONS = ClaudeDefinitions({})


def applied(settings: str) -> tuple[AgentConfig, tuple[str, ...]]:
    content = f"---\n{settings}\n---\nBe strict.\n".encode()
    return DEFINITIONS.apply(read_definition(content, "reviewer", ("claude",)))


@pytest.mark.parametrize(
    ("setting", "tools"),
    [
        ("Bash, Read", ("Bash", "Read")),
        ("", None),
        ("'*'", None),
        ("['*']", None),
        ("Bash, mcp__probe__ping, mcp__other", ("Bash",)),
    ],
)
def test_definition_file_grants_no_tools_of_MCP_servers(setting: str, tools: tuple[str, ...] | None) -> None:
    agent, warnings = applied(f"tools: {setting}")
    assert (agent.tools, warnings) == (tools, ())


def test_definition_leaves_out_a_partly_allowed_tool_with_a_warning() -> None:
    agent, warnings = applied("tools: Read, Bash(git log, git diff)")
    assert agent.tools == ("Read",)
    assert warnings == (
        "`tools`: Bash(git log, git diff) is ignored: sm cannot restrict a tool to a pattern",
        "without Bash in `tools` it cannot report: sm complete, sm ask",
    )


def test_definition_without_tools_warns_that_the_agent_cannot_report() -> None:
    agent, warnings = applied("tools: []")
    assert (agent.tools, len(warnings)) == ((), 1)


def test_disallowed_tools_become_an_option_of_claude() -> None:
    agent, warnings = applied("disallowedTools: Write, Bash(rm *)")
    assert agent.args == ("--disallowedTools", "Write,Bash(rm *)")
    assert warnings == ()


def test_definition_warns_of_keys_that_neither_sm_nor_claude_reads() -> None:
    known = "color: red\nhooks: {Stop: [{x: 1}]}\nmcpServers: [a]\nmaxTurns: 3\nmemory: user\neffort: high"
    assert applied(f"{known}\nskills: [x]\nbackground: true\nisolation: worktree\ninitialPrompt: x")[1] == ()
    assert applied("descripton: reviews\nmaxturns: 3\nzzz: 1")[1] == (
        "unknown key 'descripton' (did you mean `description`?)",
        "unknown key 'maxturns' (did you mean `maxTurns`?)",
        "unknown key 'zzz'",
    )


def test_definition_names_only_a_few_of_many_unknown_keys() -> None:
    _, warnings = applied("\n".join(f"zzz{n}: 1" for n in range(9)))
    assert len(warnings) == 6
    assert warnings[-1] == "4 more unknown keys"


def test_definition_without_claude_settings_is_unchanged() -> None:
    config = AgentConfig(model="opus", description="reviews", prompt="Be strict.", spawnable=True)
    assert DEFINITIONS.apply(Definition(config)) == (config, ())


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
def test_user_directory_is_below_the_configuration_directory_of_claude(
    added: dict[str, str], environment: dict[str, str], directory: str | None
) -> None:
    assert ClaudeDefinitions(added).user_directory(environment) == directory
