"""Adds to a hint the tools that do the same as its commands, because some agents have no shell."""

import re
from collections.abc import Collection

from sm.core.capability_parts import capability_operations

_TOOLS = {
    **{
        o.command.split()[0]: (o.tool, o.tool_action)
        for o in reversed(capability_operations())
        if o.tool and o.command
    },
    "agents": ("list_agent_types", ""),
    "all": ("list_workspace_sessions", ""),
    "answer": ("answer_request", ""),
    "approve": ("answer_request", ""),
    "ask": ("ask", ""),
    "complete": ("complete_session", ""),
    "deny": ("answer_request", ""),
    "interrupt": ("control_session", "interrupt"),
    "kill": ("control_session", "kill"),
    "note": ("report_note", ""),
    "output": ("read_session_output", ""),
    "requests": ("list_requests", ""),
    "restore": ("control_session", "restore"),
    "send": ("send_message", ""),
    "spawn": ("create_session", ""),
    "status": ("get_progress", ""),
    "wait": ("wait_for_sessions", ""),
    "why": ("get_progress", ""),
}
"""The tool for each command in hints, with its action. Other commands have no tool."""
_ARGUMENTS = ("working-dir", "budget", "model", "preset", "restart")
"""Options in hints that are arguments of tools."""
_COMMAND = re.compile(rf"\bsm ([a-z]+)|(?<!\S)--({'|'.join(_ARGUMENTS)})\b")


def with_tools(hint: str | None, tools: Collection[str]) -> str | None:
    """The hint, followed by the tools for its commands. `tools`: the names of the tools that the caller has."""
    named = []
    for found in _COMMAND.finditer(hint or ""):
        if found[2] is not None:
            named.append(f"argument {found[2].replace('-', '_')}")
        elif found[1] in _TOOLS:
            tool, action = _TOOLS[found[1]]
            if tool in tools:
                named.append(f"tool {tool}, action {action}" if action else f"tool {tool}")
    return f"{hint} [{'; '.join(dict.fromkeys(named))}]" if named else hint
