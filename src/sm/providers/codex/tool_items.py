"""Reads the items of a conversation that are uses of tools. Pure.

The names are those that the model calls: an item has only its type.
"""

from collections.abc import Mapping
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.text import folded
from sm.core.timestamps import iso
from sm.core.usage import ToolUse
from sm.providers import values
from sm.providers.readers import ToolEnd

_LINE_MAX = 200
_READ_MAX = 2_000
"""Characters of a long text that are folded into a line."""
_FINISHED = frozenset({"completed", "failed"})


@dataclass(frozen=True, slots=True)
class UsedTool:
    name: str
    arguments: Mapping[str, Any]

    @property
    def line(self) -> str:
        """The use in one line, for people: `exec_command: npm test`."""
        shown = next((value for value in self.arguments.values() if isinstance(value, str)), "")
        return folded(f"{self.name}: {shown[:_READ_MAX]}" if shown else self.name, _LINE_MAX)


def tool_of(item: Mapping[str, Any]) -> UsedTool | None:
    """The tool that an item is a use of, or None for another item."""
    match item.get("type"):
        case "commandExecution":
            return UsedTool("exec_command", _texts(item, cmd="command", workdir="cwd"))
        case "fileChange":
            changes = [values.mapping(change) for change in values.blocks(item.get("changes"))]
            return UsedTool("apply_patch", {"path": ", ".join(_path(c) for c in changes), "changes": changes})
        case "mcpToolCall":
            name = f"mcp__{values.name(item.get('server'))}__{values.name(item.get('tool'))}"
            return UsedTool(name, values.mapping(item.get("arguments")))
        case "dynamicToolCall":
            return UsedTool(values.name(item.get("tool")) or "unknown", values.mapping(item.get("arguments")))
        case "webSearch":
            return UsedTool("web_search", _texts(item, query="query"))
        case "imageView":
            return UsedTool("view_image", _texts(item, path="path"))
        case _:
            return None


def tool_use(item: Mapping[str, Any], at: float) -> ToolUse | None:
    """The use of a tool that begins with this item, or None for another item. `at`: seconds since the epoch."""
    tool, id = tool_of(item), values.name(item.get("id"))
    if tool is None or not id:
        return None
    # Texts of any length would block the loop. Both ends of a long one tell uses apart.
    parts = {n: values.cut(part) if isinstance(part, str) else part for n, part in tool.arguments.items()}
    shown = values.shorten_arguments(tool.arguments)
    return ToolUse(id, tool.name, iso(at), shown, digest=values.digest(tool.name, parts))


def tool_end(item: Mapping[str, Any], at: float) -> ToolEnd | None:
    """The end of a use of a tool, or None for another item. A tool that failed did run."""
    id, status = values.name(item.get("id")), item.get("status")
    if tool_of(item) is None or not id:
        return None
    allowed = False if status == "declined" else True if status in _FINISHED else None
    return ToolEnd(id, allowed, at)


def _texts(item: Mapping[str, Any], **members: str) -> Mapping[str, str]:
    return {name: values.string(item.get(member)) for name, member in members.items()}


def _path(change: Mapping[str, Any]) -> str:
    return values.string(change.get("path"))
