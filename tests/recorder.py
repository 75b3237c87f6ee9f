"""Records in a daemon what it reads of the real Claude Code: hooks, transcripts, state files, screens and titles.

Only the shape is recorded (tests/recordings.py): names of keys and kinds of values, and values that are words of
claude's own. So no text of a test is recorded.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

DIRECTORY = "SM_TEST_RECORD"
"""The variable with the directory into which the daemons of the tests record."""

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
_NUMBERS = re.compile(r"\d+")
_FOOTER_MAX = 100

_OF_OTHERS = frozenset(["input", "structuredContent"])
"""Keys whose content comes from a test or from the tools of sm. Hooks record arguments by tool, except those of MCP."""

Lines = frozenset[tuple[str, str]]
"""Each path in a value, with the kind of what is there. A key that holds an object has the kind `object`."""


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


class Recorder:
    """Appends each shape that it has not seen yet to a file of this process."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/{os.getpid()}.jsonl"
        self._seen: set[tuple[str, str, Lines]] = set()

    def record(self, kind: str, name: str, lines: Lines) -> None:
        if (kind, name, lines) in self._seen:
            return
        self._seen.add((kind, name, lines))
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps([kind, name, sorted(lines)]) + "\n")

    def hook(self, payload: Mapping[str, Any]) -> None:
        name, tool = payload.get("hook_event_name"), payload.get("tool_name")
        about = _tool(tool if isinstance(tool, str) else payload.get("source") or payload.get("trigger"))
        if about == _MCP:
            left_out = dict.fromkeys(payload.keys() & {"tool_input", "tool_response"})
            payload = {**payload, **left_out, "tool_name": ""}
        self.record("hooks", f"{name} {about}".strip(), lines_of(payload))

    def transcript(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                self.record("transcripts", _line_name(value), lines_of(value))

    def state(self, content: bytes) -> None:
        try:
            value = json.loads(content)
        except ValueError:
            return
        if isinstance(value, dict):
            self.record("states", f"{value.get('status')}", lines_of(value))

    def screen(self, lines: Sequence[str]) -> None:
        from sm.providers.claude.screen import read_screen

        content = read_screen(lines)
        below = [line.strip() for line in lines if line.strip()]
        footer = (
            _NUMBERS.sub("0", " ".join(below[-1].replace("|", "/").split()))[:_FOOTER_MAX] if below else ""
        )
        name = f"{content.state}{f': {content.obstacle}' if content.obstacle else ''}"
        shown = {("footer", f"`{footer}`")} if content.state in _WITH_FOOTER else set()
        self.record("screens", name, frozenset({("box", f"{content.composer is not None}"), *shown}))

    def title(self, glyph: str) -> None:
        from sm.providers.claude.screen import read_title

        self.record("titles", f"{read_title(f'{glyph} ')}", frozenset())


_MCP = "mcp"
_WITH_FOOTER = frozenset(["permission", "question", "dialog", "blocked"])


def _tool(about: object) -> str:
    """The tool of an event, or another word about it; the tools of MCP servers count as one."""
    word = about if isinstance(about, str) else ""
    return _MCP if word.startswith("mcp__") else word if _WORD.fullmatch(word) else ""


def _line_name(value: Mapping[str, Any]) -> str:
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


def record_into(directory: str) -> None:
    """Patch the readers of claude in this process, so that they record what they get."""
    from sm.providers.claude.hooks import ClaudeHookReader
    from sm.providers.claude.state import ClaudeStateReader
    from sm.providers.claude.terminal import ClaudeScreenReader
    from sm.providers.claude.transcript import ClaudeTranscriptReader

    recorder = Recorder(directory)

    def before(reader: type, name: str, record: Callable[[Any], None], *, static: bool = False) -> None:
        original = getattr(reader, name)

        def recorded(*arguments: Any, **options: Any) -> Any:
            record(arguments[0 if static else 1])
            return original(*arguments, **options)

        setattr(reader, name, staticmethod(recorded) if static else recorded)

    before(ClaudeHookReader, "event", recorder.hook, static=True)
    before(ClaudeTranscriptReader, "delta", recorder.transcript)
    before(ClaudeStateReader, "state", recorder.state)
    before(ClaudeScreenReader, "screen", recorder.screen)
    before(ClaudeScreenReader, "title", recorder.title)
