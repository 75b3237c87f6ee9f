"""Derives the allow rule that matches exactly what a request asks for, for `sm approve --always`. Pure.

An agent wrote the request, and a person agrees to the rule as it is shown. So a rule is never wider than what the
person saw: text that the language of rules reads as more than itself, or that a person cannot see, gets no rule.
"""

import posixpath
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from sm.core.programs import (
    OWN_SERVER,
    RuledTool,
    RuleKind,
    agent_programs,
    is_plan,
    is_question,
    ruled_tools,
)
from sm.paths import is_within
from sm.policy.shell import is_printable, plain_words
from sm.policy.tool_rules import PathContext, evaluate, parse_rule

_PART = r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*"
_MCP_TOOL = re.compile(rf"mcp__{_PART}__{_PART}")
"""A name with further `__` could also be that of a tool of another server."""
_PROGRAM_SM = re.compile(r"(?<![\w.-])sm(?:\.\w+)*\s")
_OF_SM = "sm acts on other sessions: the same words can approve something else of them later"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_PROGRAM_FOLDERS = frozenset({".git", ".sm"})
"""Programs run commands from files in these directories."""


def exact_rule(
    tool: str, arguments: Mapping[str, Any], bases: Sequence[str], private: Sequence[str] = ()
) -> str:
    """The text of the rule. Raises ValueError, whose message gives the reason in a sentence of its own.

    `bases`: the names of the directory of the session that asks. No file outside of it gets a rule. `private`: the
    directories of sm itself, in which no file gets a rule.
    """
    if is_question(tool) or is_plan(tool):
        raise ValueError("questions and plans need an answer each time")
    ruled = ruled_tools().get(tool)
    if tool.startswith(f"mcp__{OWN_SERVER}__"):
        raise ValueError(_OF_SM)
    if tool.startswith("mcp__"):
        pattern = None
        if not _MCP_TOOL.fullmatch(tool):
            raise ValueError("the name of the tool could also mean tools of another server")
    elif ruled is None:
        raise ValueError("rules cannot distinguish the uses of this tool")
    else:
        pattern = _pattern(ruled, arguments, bases, private)
    text = tool if pattern is None else f"{tool}({pattern})"
    try:
        rule = parse_rule(text)
    except ValueError as error:
        raise ValueError(f"the rule {error}") from None
    place = PathContext(bases[0], tuple(bases))
    ruling = evaluate((text,), (), tool, arguments, place, cut=False)
    if (rule.tool, rule.pattern) != (tool, pattern) or ruling is None or not ruling.approved:
        raise ValueError("no rule allows a use of a tool with these arguments")
    return text


def _pattern(
    ruled: RuledTool, arguments: Mapping[str, Any], bases: Sequence[str], private: Sequence[str]
) -> str:
    text = arguments.get(ruled.argument)
    if not isinstance(text, str) or not text:
        raise ValueError(f"the request has no {ruled.argument}")
    if ruled.unruled is not None and arguments.get(ruled.unruled):
        raise ValueError(f"no rule allows a use with {ruled.unruled}")
    if "*" in text:
        raise ValueError("it contains *, which matches any text in a rule")
    if not is_printable(text):
        raise ValueError("it contains a line break or a character that cannot be seen")
    if any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text):
        raise ValueError("it contains letters from right to left, which change the order of what is seen")
    if ruled.kind is RuleKind.COMMAND and _PROGRAM_SM.search(plain_words(text)):
        raise ValueError(_OF_SM)
    if ruled.kind in (RuleKind.PATH, RuleKind.SEARCH):
        _check_path(text, bases, private)
    return text


def _check_path(path: str, bases: Sequence[str], private: Sequence[str]) -> None:
    """Raise ValueError for a path that could name another file, or a file that gives an agent more permissions."""
    if not path.startswith("/") or path.startswith("//") or path != posixpath.normpath(path):
        raise ValueError("the path is not absolute, or not in its shortest form")
    below = [
        path[len(base.rstrip("/")) :] for base in map(posixpath.normpath, bases) if is_within(path, base)
    ]
    if not below:
        raise ValueError("the path is outside of the directory of the session")
    programs = [name for known in agent_programs() for name in known.executed_files]
    for name in below:
        if not _PROGRAM_FOLDERS.isdisjoint(name.split("/")) or any(
            path.endswith(f"/{file}") for file in programs
        ):
            raise ValueError("programs run commands from this file or directory")
    if any(is_within(path, folder) or is_within(folder, path) for folder in private):
        raise ValueError("the file or directory belongs to sm")
