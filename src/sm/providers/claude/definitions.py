"""Finds and applies the definition files of Claude Code agent types. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from sm.config import DEFINITION_KEYS, AgentConfig, Definition
from sm.providers.claude.home import config_dir

_OWN_KEYS = (
    *(
        "background",
        "color",
        "effort",
        "hooks",
        "initialPrompt",
        "isolation",
        "maxTurns",
        "mcpServers",
        "memory",
    ),
    "skills",
)
"""The keys of claude 2.1.197 that `sm` does not read."""
_UNKNOWN_KEYS_SHOWN = 5
_KEY_MAX = 80
_PART_OF_A_TOOL = re.compile(r"[(*]")


class ClaudeDefinitions:
    """`Definitions` for claude. `added`: the variables that the configuration adds to a session's environment."""

    project_directory: tuple[str, ...] = (".claude", "agents")

    def __init__(self, added: Mapping[str, str]) -> None:
        self._added = added

    def user_directory(self, environment: Mapping[str, str]) -> str | None:
        directory = config_dir({**environment, **self._added})
        usable = directory.startswith("/") and "\0" not in directory
        return f"{directory.rstrip('/')}/agents" if usable else None

    def apply(self, definition: Definition) -> tuple[AgentConfig, tuple[str, ...]]:
        warnings: list[str] = []
        tools, left_out = _tools(definition.tools)
        if left_out:
            warnings.append(
                f"`tools`: {', '.join(left_out)} is ignored: sm cannot restrict a tool to a pattern"
            )
        if tools is not None and "Bash" not in tools:
            warnings.append("without Bash in `tools` it cannot report: sm complete, sm ask")
        warnings += _unknown_key_warnings(definition.other_keys)
        refused = definition.disallowed_tools
        changed = {"tools": tools, "args": ("--disallowedTools", ",".join(refused)) if refused else ()}
        return definition.agent.model_copy(update=changed), tuple(warnings)


def _unknown_key_warnings(keys: Sequence[str]) -> Iterator[str]:
    unknown = [key for key in keys if key not in _OWN_KEYS]
    known = {key.lower(): key for key in (*DEFINITION_KEYS, *_OWN_KEYS)}
    for key in unknown[:_UNKNOWN_KEYS_SHOWN]:
        near = get_close_matches(key[:_KEY_MAX].lower(), known, n=1)
        yield f"unknown key {key[:_KEY_MAX]!r}{f' (did you mean `{known[near[0]]}`?)' if near else ''}"
    if len(unknown) > _UNKNOWN_KEYS_SHOWN:
        yield f"{len(unknown) - _UNKNOWN_KEYS_SHOWN} more unknown keys"


def _tools(names: tuple[str, ...] | None) -> tuple[tuple[str, ...] | None, list[str]]:
    """The built-in tools among these names (None for all), and the omitted names.

    claude cannot restrict a tool to `Bash(git *)`, and all of Bash would exceed the definition. The session's MCP
    servers decide about their tools.
    """
    if names is None or names == ("*",):
        return None, []
    left_out = [name for name in names if _PART_OF_A_TOOL.search(name) and not name.startswith("mcp__")]
    return tuple(n for n in names if n not in left_out and not n.startswith("mcp__")), left_out
