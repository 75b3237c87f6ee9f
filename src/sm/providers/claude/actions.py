"""Summarizes the actions in a transcript, one line each. Pure."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import assert_never

from sm.core.text import folded
from sm.core.usage import ActionLine, ToolUse, Usage
from sm.providers import values
from sm.providers.claude.facts import Compaction, Fact, HookRefusal, Mark, MarkKind, ToolResult, Writer, facts
from sm.providers.claude.todos import TodoList


def last_actions(lines: Sequence[bytes], count: int, working_dir: str = "") -> tuple[ActionLine, ...]:
    """The last `count` actions in the lines of one file, oldest first.

    Each text is one line of at most 200 characters without control characters. Paths below `working_dir` are relative.
    """
    actions: dict[ActionLine, None] = {}  # without duplicates: a compaction writes lines again
    for line in reversed(lines):
        if len(actions) >= count + _DISORDER:
            break
        for fact in reversed(facts(line)):
            action = _action(fact, working_dir)
            if action is not None:
                actions[action] = None
    latest, timed = "", []
    for action in reversed(actions):
        latest = action.at or latest
        timed.append((latest, action))
    timed.sort(key=itemgetter(0))
    return tuple(action for _, action in timed[-count:]) if count > 0 else ()


_DISORDER = 20
"""Number of actions that may precede an earlier action in the file."""


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
            kind, words = _MARKS.get(fact.kind, ("mark", ""))
            text = words.format(text=fact.text, detail=fact.detail)
            return ActionLine(fact.at, kind, _line(text)) if text else None
        case Writer() | Usage() | TodoList() | HookRefusal():
            return None
        case _:
            assert_never(fact)


_MARKS: Mapping[MarkKind, tuple[str, str]] = {
    MarkKind.PROMPT: ("prompt", "{text}"),
    MarkKind.CONSUMED: ("prompt", "{text}"),
    MarkKind.TEXT: ("text", "{text}"),
    MarkKind.TURN_FINISHED: ("mark", "turn finished"),
    MarkKind.INTERRUPTED: ("mark", "interrupted"),
    MarkKind.REJECTED: ("mark", "a person denied the tool"),
    MarkKind.API_ERROR: ("mark", "{detail}: {text}"),
    MarkKind.ENQUEUED: ("mark", "queued: {text}"),
    MarkKind.WITHDRAWN: ("mark", "removed from the queue: {text}"),
    MarkKind.REFUSED: ("mark", "a hook refused a prompt: {detail}"),
    MarkKind.STOPPED: ("mark", "a hook stopped the turn: {detail}"),
    MarkKind.COMMAND: ("mark", "command {text}"),
    MarkKind.COMMAND_OUTPUT: ("mark", "{text}"),
}
"""The kind and text of each action. Other marks are not shown, because their prompt follows."""
_SHOWN_ARGUMENT = {
    "Agent": "description", "Bash": "command", "Edit": "file_path", "Glob": "pattern", "Grep": "pattern",
    "NotebookEdit": "notebook_path", "Read": "file_path", "Skill": "skill", "Task": "description",
    "TaskCreate": "subject", "WebFetch": "url", "WebSearch": "query", "Write": "file_path",
}  # fmt: skip
"""The argument to show for each tool. Other tools show their first text argument."""
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
