"""The shape of what claude writes: keys, kinds of values, and claude's own words. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_WORDS = frozenset(
    [
        *("attachmentType", "entrypoint", "hook_event_name", "hookEvent", "hookEventName", "kind", "level"),
        *("notification_type", "operation", "permission_mode", "permissionMode", "reason", "role", "source"),
        *("status", "stop_reason", "subtype", "tool_name", "trigger", "type", "userType", "waitingFor"),
    ]
)
"""Keys whose values are words of claude."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,40}")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")

_OF_OTHERS = frozenset(["input", "structuredContent"])
"""Keys whose content comes from a scene."""

Lines = frozenset[tuple[str, str]]
"""Each path in a value, with the kind of what is there. A key that holds an object has the kind `object`."""
Shape = Mapping[str, tuple[bool, frozenset[str]]]
"""By path: whether each one has it, and the kinds of values."""
Shapes = Mapping[str, Shape]


def lines_of(value: object) -> Lines:
    return frozenset(_lines(value, "", ""))


def _lines(value: object, path: str, key: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping():
            yield path, "object"
            for name, inner in value.items() if key not in _OF_OTHERS else ():
                # The keys of a table, such as paths of files or ids, vary as values do.
                shown = name if isinstance(name, str) and _KEY.fullmatch(name) else "*"
                yield from _lines(inner, f"{path}.{shown}", shown)
        case list() | tuple():
            yield path, "list"
            for inner in value:
                yield from _lines(inner, f"{path}[]", key)
        case str():
            yield path, f"`{value}`" if key in _WORDS and _WORD.fullmatch(value) else "text"
        case bool():
            yield path, "true or false"
        case int() | float():
            yield path, "number"
        case _:
            yield path, "null"


def hook_name(hook: Mapping[str, Any]) -> str:
    """The event of a hook, with its tool or another word about it. The tools of MCP servers count as one."""
    about = hook.get("tool_name") or hook.get("source") or hook.get("trigger") or ""
    word = about if isinstance(about, str) else ""
    word = "mcp" if word.startswith("mcp__") else word if _WORD.fullmatch(word) else ""
    return f"{hook.get('hook_event_name')} {word}".strip()


def line_name(value: Mapping[str, Any]) -> str:
    """The kind of a line of a transcript: its type, with the types of what it contains."""
    inner: list[str] = []
    message, attachment = value.get("message"), value.get("attachment")
    if isinstance(message, dict):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text"}]
        inner = sorted({f"{block.get('type')}" for block in blocks if isinstance(block, dict)})
    elif isinstance(attachment, dict):
        inner = [f"{attachment.get('type')}"]
    result = value.get("toolUseResult")
    of_result = "object" if isinstance(result, dict) else "text" if isinstance(result, str) else ""
    words = [value.get("type"), value.get("subtype") or value.get("operation"), *inner, of_result]
    return " ".join(word for word in words if isinstance(word, str) and word)


def merged(observations: Sequence[Iterable[tuple[str, str]]]) -> Shape:
    """One shape of several. A path may be absent only where what holds it is there, or an empty list."""
    kinds: dict[str, set[str]] = defaultdict(set)
    has: dict[str, int] = defaultdict(int)
    for lines in observations:
        for path, kind in lines:
            kinds[path].add(kind)
        for path in {path for path, _ in lines}:
            has[path] += 1
    return {
        path: (has[path] == has.get(holder_of(path), len(observations)), frozenset(kinds[path]))
        for path in sorted(kinds)
    }


def holder_of(path: str) -> str:
    """The path of the object or list that holds `path`."""
    return path[:-2] if path.endswith("[]") else path.rpartition(".")[0]
