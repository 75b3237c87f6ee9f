"""Lists the tool calls of claude itself in the facts of a transcript, and finds calls that wait. Pure."""

import re
from collections.abc import Sequence

from sm.core.text import folded
from sm.core.tool_calls import CallEnd, CallItem, CallStart, TurnBreak
from sm.core.usage import ToolUse
from sm.providers.claude.actions import tool_line
from sm.providers.claude.facts import Fact, Mark, MarkKind, ToolResult

_COMMAND = r"(?:^|[;&|({`\n]|\b(?:do|then|else|time|exec))\s*"
_WAITS = re.compile(
    rf"{_COMMAND}(?:sleep|wait|inotifywait|watch|(?:\S*/)?sm\s+(?:wait|inbox|ask|events))(?![\w./-])"
)
"""Shell commands that wait."""
_WAITING_TOOLS = frozenset(
    {"BashOutput", "TaskOutput", "AgentOutput", "Monitor", "AskUserQuestion", "mcp__sm__wait_for_sessions"}
)
_OWN_COMMAND = re.compile(r"(?:\S*/)?(?:sm|sleep|echo|true|cd)(?![\w./-])[^`$()<>]*")
_OWN_TOOLS = re.compile(r"mcp__sm__\w+|ToolSearch|BashOutput|TaskOutput|AgentOutput|TodoWrite")
_SEPARATORS = re.compile(r"[;&|\n]+")
_OWN_MAX_CHARACTERS = 60_000
_SHOWN_MAX = 120
_ERROR_MAX = 160
_BREAKS = frozenset({MarkKind.TURN_FINISHED, MarkKind.INTERRUPTED, MarkKind.API_ERROR})


def calls_of(facts: Sequence[Fact]) -> tuple[CallItem, ...]:
    """The starts and ends of calls, and the ends of turns, in the order of the file. Leaves out sub-agents."""
    items: list[CallItem] = []
    for fact in facts:
        match fact:
            case ToolUse() if not fact.sidechain and fact.digest:
                shown = folded(tool_line(fact, ""), _SHOWN_MAX)
                items.append(
                    CallStart(
                        fact.id,
                        fact.name,
                        fact.digest,
                        shown,
                        fact.at,
                        waits=_waits(fact),
                        is_own=_is_own(fact),
                    )
                )
            case ToolResult() if not fact.sidechain:
                error = folded(fact.text, _ERROR_MAX) or "no text" if fact.is_error else None
                items.append(CallEnd(fact.tool_use_id, fact.digest, error, fact.at or ""))
            case Mark() if fact.kind in _BREAKS and not fact.sidechain:
                items.append(TurnBreak())
            case _:
                pass
    return tuple(items)


def _waits(use: ToolUse) -> bool:
    if use.name in _WAITING_TOOLS:
        return True
    command = use.arguments.get("command")
    return isinstance(command, str) and _WAITS.search(command) is not None


def _is_own(use: ToolUse) -> bool:
    """True if the call is one of sm's tools, or a shell command that runs nothing but sm and waits."""
    if _OWN_TOOLS.fullmatch(use.name):
        return True
    command = use.arguments.get("command")
    if use.name != "Bash" or not isinstance(command, str) or len(command) > _OWN_MAX_CHARACTERS:
        return False
    words = re.sub(r"'[^']*'|\"(?:[^\"\\\\`$]|\\\\.)*\"", "TEXT", command)
    parts = [part.strip() for part in _SEPARATORS.split(words)]
    return all(_OWN_COMMAND.fullmatch(part) for part in parts if part)
