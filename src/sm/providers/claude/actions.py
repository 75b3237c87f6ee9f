"""What an agent does, each action a line for a person to read. Pure."""

from collections.abc import Sequence
from typing import assert_never

from sm.core.text import folded
from sm.core.usage import ActionLine, ToolUse, Usage
from sm.providers.claude import values
from sm.providers.claude.facts import Compaction, Fact, Mark, MarkKind, ToolResult, facts
from sm.providers.claude.todos import TodoList


def last_actions(lines: Sequence[bytes], count: int, working_dir: str = "") -> tuple[ActionLine, ...]:
    """The last `count` things that happened in one file's lines, oldest first.

    Each is one line of at most 200 characters without control characters; paths below `working_dir` are
    shown relative to it.
    """
    found: dict[ActionLine, None] = {}  # each once, although a compaction writes lines again
    for line in reversed(lines):
        if len(found) >= count + _DISORDER:
            break
        for fact in reversed(facts(line)):
            action = _action(fact, working_dir)
            if action is not None:
                found[action] = None
    latest = ""
    timed = []
    for action in reversed(found):
        timed.append((action.at or latest, action))
        latest = timed[-1][0]
    timed.sort(key=lambda each: each[0])
    return tuple(action for _, action in timed[-count:]) if count > 0 else ()


_DISORDER = 20
"""So many actions may stand before one that happened earlier."""


def _action(fact: Fact, working_dir: str) -> ActionLine | None:
    match fact:
        case ToolUse():
            return ActionLine(fact.at or None, "tool", tool_line(fact, working_dir))
        case ToolResult():
            if not fact.is_error or fact.rejected:  # a rejection is a mark
                return None
            return ActionLine(fact.at, "error", _line(fact.text))
        case Compaction():
            sizes = [f"{n:,}" if n is not None else "?" for n in (fact.pre_tokens, fact.post_tokens)]
            return ActionLine(fact.at, "mark", f"compacted: {' → '.join(sizes)} tokens")
        case Mark():
            kind, text = _mark_words(fact)
            return ActionLine(fact.at, kind, _line(text)) if text else None
        case Usage() | TodoList():
            return None
        case _:
            assert_never(fact)


def _mark_words(mark: Mark) -> tuple[str, str]:
    """(kind, text) of the action; an empty text is not shown."""
    match mark.kind:
        case MarkKind.PROMPT | MarkKind.CONSUMED:
            return "prompt", mark.text
        case MarkKind.TEXT:
            return "text", mark.text
        case MarkKind.TURN_FINISHED:
            return "mark", "turn finished"
        case MarkKind.INTERRUPTED:
            return "mark", "interrupted"
        case MarkKind.REJECTED:
            return "mark", "a person rejected the tool"
        case MarkKind.API_ERROR:
            return "mark", f"{mark.detail}: {mark.text}"
        case MarkKind.ENQUEUED:
            return "mark", f"queued: {mark.text}"
        case MarkKind.WITHDRAWN:
            return "mark", f"taken back: {mark.text}"
        case MarkKind.REFUSED:
            return "mark", f"a hook refused a prompt: {mark.detail}"
        case MarkKind.STOPPED:
            return "mark", f"a hook stopped the turn: {mark.detail}"
        case MarkKind.COMMAND:
            return "mark", f"command {mark.text}"
        case MarkKind.COMMAND_OUTPUT:
            return "mark", mark.text
        case MarkKind.DEQUEUED | MarkKind.REMOVED:
            return "mark", ""  # the prompt itself follows
        case _:
            assert_never(mark.kind)


_SHOWN_ARGUMENT = {
    "Agent": "description",
    "Bash": "command",
    "Edit": "file_path",
    "Glob": "pattern",
    "Grep": "pattern",
    "NotebookEdit": "notebook_path",
    "Read": "file_path",
    "Skill": "skill",
    "Task": "description",
    "TaskCreate": "subject",
    "WebFetch": "url",
    "WebSearch": "query",
    "Write": "file_path",
}
"""The one argument that tells what a call is about; of any other tool it is the first text."""
_PATHS = frozenset({"file_path", "notebook_path", "path"})


def tool_line(tool: ToolUse, working_dir: str = "") -> str:
    """A call as one line: `Write → tests/api.test.ts`, `Bash: npm test`."""
    name = _SHOWN_ARGUMENT.get(tool.name) or next(
        (key for key, value in tool.arguments.items() if isinstance(value, str)), ""
    )
    value = tool.arguments.get(name)
    if not isinstance(value, str):
        return _line(tool.name)
    if name not in _PATHS:
        return _line(f"{tool.name}: {value}")
    below = f"{working_dir.rstrip('/')}/"
    return _line(f"{tool.name} → {value.removeprefix(below) if working_dir else value}")


def _line(text: str) -> str:
    return folded(text, values.ARGUMENT_MAX)
