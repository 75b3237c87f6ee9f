"""What the lines of Claude Code's transcript (JSONL) tell. Pure.

Source: the files that claude 2.1.197 writes, and the program itself. A line that is no JSON, of a type nobody
knows or of an odd shape tells nothing and never raises: the agent can write this file, and every release adds
types.
Texts are the agent's own words: they are cut, but control characters stay in; fold them before showing them.

Each block of an API message is a line of its own and repeats the usage, the early ones with less output: of
the Usages with one `message_id` that with the most output counts, and a ToolUse once for its `id`. A compaction
writes the lines that it keeps a second time, and the first flush of a file can put an answer before its prompt:
`at` says what was later.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

from sm.text import MARK, folded
from sm.usage import ActionLine, Todo, ToolUse, Usage

TEXT_MAX = 4_000
"""Characters kept of a text: its two ends, for a report says at its end what came of it."""
ARGUMENT_MAX = 200
ARGUMENTS_MAX = 30
TODOS_MAX = 200
NAME_MAX = 100
WHOLE_MAX = 300_000
"""Bounds on what one line may leave in memory."""
SYNTHETIC = "<synthetic>"
"""The model of a message that Claude Code made up itself."""
FAST = "fast:"
"""What stands before the model of a message from the fast mode, which has prices of its own."""
_COUNT_MAX = 10**12

# --------------------------------------------------------------------------------------------- the facts


@dataclass(frozen=True, slots=True)
class TodoList:
    """The whole list, in place of the one before."""

    items: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class TodoChange:
    """One entry of the Task tools' list: new, or changed in what is not None."""

    id: str
    content: str | None
    status: str | None
    """`deleted`: it is on the list no more."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    tool_use_id: str
    at: str | None
    sidechain: bool
    is_error: bool = False
    rejected: bool = False
    """By a person at the dialog."""
    text: str = field(default="", repr=False)
    """Of an error only."""
    todos: TodoList | TodoChange | None = None
    """What a Task tool answered."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The conversation was replaced by a summary. Token counts are None where the line has none."""

    at: str | None
    trigger: str
    """`auto` or `manual`."""
    pre_tokens: int | None
    post_tokens: int | None
    sidechain: bool = False


class MarkKind(StrEnum):
    PROMPT = "prompt"
    """A turn begins. detail: whose prompt it is (`human`, `task-notification`), or how it came (`queued`)."""
    TEXT = "text"
    """The assistant's words. detail `<synthetic>`: not the model's message, but what an interrupt left of one."""
    TURN_FINISHED = "turn_finished"
    """Also after an API error; not after an interrupt."""
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"
    """A person said no to a tool. text: what the model is told."""
    API_ERROR = "api_error"
    """The turn failed for good. detail: the kind of error (`server_error`, `rate_limit`, ...)."""
    ENQUEUED = "enqueued"
    """A message waits in the agent's queue: the proof of one that was sent to a busy agent."""
    DEQUEUED = "dequeued"
    """Some queued message begins a turn (its PROMPT has the text)."""
    REMOVED = "removed"
    """Some queued message left the queue without a turn of its own (its CONSUMED has the text)."""
    WITHDRAWN = "withdrawn"
    """A person took a queued message back into the input box: it was not read."""
    CONSUMED = "consumed"
    """A queued message was handed to the model within a turn."""
    COMMAND = "command"
    """A slash command, with its arguments, or `!command`. It may begin a turn, or not."""
    COMMAND_OUTPUT = "command_output"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened in the turn."""

    kind: MarkKind
    at: str | None
    text: str = field(default="", repr=False)
    """At most 4,000 characters."""
    prompt_id: str | None = None
    """Of the turn, where the line names it; the hooks name the same one."""
    detail: str = ""
    background: int = 0
    """TURN_FINISHED: how many background agents and workflows still run."""
    sidechain: bool = False
    whole: str = field(default="", repr=False)
    """All of a text that somebody has given to the agent, where it may be one of our messages."""
    parent: str | None = None
    """PROMPT: behind which line of the conversation it stands; empty: it is the first."""


Fact: TypeAlias = Usage | ToolUse | ToolResult | TodoList | Compaction | Mark


def facts(line: bytes) -> tuple[Fact, ...]:
    """What one line tells, in its order; nothing when it cannot be read. Never raises."""
    try:
        # Not orjson: it refuses the half of a surrogate pair that JavaScript leaves where it cuts an emoji.
        value = json.loads(line.decode("utf-8", "replace"))
        return tuple(_read(value)) if isinstance(value, dict) else ()
    except (ValueError, RecursionError):  # RecursionError: thousands of brackets
        return ()


def facts_of(lines: Iterable[bytes]) -> list[Fact]:
    return [fact for line in lines for fact in facts(line)]


# ------------------------------------------------------------------------------------- reading one line


@dataclass(frozen=True, slots=True)
class _Line:
    value: Mapping[str, Any]
    at: str | None
    sidechain: bool
    prompt_id: str | None

    def mark(self, kind: MarkKind, text: str = "", detail: str = "", background: int = 0) -> Mark:
        ours = kind in _GIVEN and MARK in text and not text.startswith(_TASK) and len(text) <= WHOLE_MAX
        whole = _HALF.sub("\ufffd", text) if ours else ""
        placed = kind is MarkKind.PROMPT and "parentUuid" in self.value
        parent = _name(self.value["parentUuid"]) if placed else None
        return Mark(
            kind, self.at, _cut(text), self.prompt_id, detail, background, self.sidechain, whole, parent
        )


_GIVEN = frozenset({MarkKind.PROMPT, MarkKind.ENQUEUED, MarkKind.CONSUMED, MarkKind.WITHDRAWN})
_TASK = "<task-notification>"
"""How the words of a sub-agent begin, which are nobody's message."""


def _read(value: Mapping[str, Any]) -> Iterator[Fact]:
    reader = _READERS.get(_name(value.get("type")))
    if reader is not None:
        line = _Line(
            value,
            _time(value.get("timestamp")),
            value.get("isSidechain") is True,
            _name(value.get("promptId")) or None,
        )
        yield from reader(line)


def _assistant(line: _Line) -> Iterator[Fact]:
    message = _mapping(line.value.get("message"))
    if line.value.get("isApiErrorMessage") is True:
        yield line.mark(
            MarkKind.API_ERROR, _words(message.get("content")), _name(line.value.get("error")) or "unknown"
        )
        return
    model = _name(message.get("model"))
    if model != SYNTHETIC:
        yield from _usage(line, message, model)
    for block in _blocks(message.get("content")):
        match block.get("type"):
            case "text":
                text = _string(block.get("text"))
                if model == SYNTHETIC and text != "No response requested.":
                    yield line.mark(MarkKind.TEXT, text, SYNTHETIC)
                elif model != SYNTHETIC and text.strip():
                    yield line.mark(MarkKind.TEXT, text)
            case "tool_use":
                yield from _tool_use(line, block)
            case _:  # thinking, and what is to come
                pass


def _usage(line: _Line, message: Mapping[str, Any], model: str) -> Iterator[Usage]:
    usage = message.get("usage")
    message_id = _name(message.get("id")) or _name(line.value.get("requestId"))
    if not isinstance(usage, dict) or not message_id or not model:
        return
    cache_write = _count(usage.get("cache_creation_input_tokens")) or 0
    for_an_hour = _count(_mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")) or 0
    yield Usage(
        message_id,
        f"{FAST}{model}" if usage.get("speed") == "fast" else model,
        line.at or "",
        input=_count(usage.get("input_tokens")) or 0,
        output=_count(usage.get("output_tokens")) or 0,
        cache_read=_count(usage.get("cache_read_input_tokens")) or 0,
        cache_write=cache_write,
        cache_write_1h=min(for_an_hour, cache_write),
        sidechain=line.sidechain,
    )


def _tool_use(line: _Line, block: Mapping[str, Any]) -> Iterator[Fact]:
    id, name, given = _name(block.get("id")), _name(block.get("name")), _mapping(block.get("input"))
    if not id or not name:
        return
    yield ToolUse(id, name, line.at or "", shortened(given), line.sidechain)
    # A sub-agent's TodoWrite is a list of its own; the list of the Task tools is one for the session.
    if name == "TodoWrite" and isinstance(given.get("todos"), list) and not line.sidechain:
        yield _todo_list(given["todos"])


def _user(line: _Line) -> Iterator[Fact]:
    content = _mapping(line.value.get("message")).get("content")
    results = [block for block in _blocks(content) if block.get("type") == "tool_result"]
    for result in results:
        yield from _tool_result(line, result, alone=len(results) == 1)
    text = _words(content)
    if text.startswith("[Request interrupted by user"):
        yield line.mark(MarkKind.INTERRUPTED, text)
    elif not results and line.value.get("isCompactSummary") is not True:
        yield from _spoken(line, text)


def _tool_result(line: _Line, block: Mapping[str, Any], *, alone: bool) -> Iterator[Fact]:
    id = _name(block.get("tool_use_id"))
    if not id:
        return
    meant = line.value.get("toolUseResult") if alone else None
    is_error = block.get("is_error") is True
    rejected = is_error and (
        meant == "User rejected tool use" or line.value.get("toolDenialKind") == "user-rejected"
    )
    text = _cut(_words(block.get("content"))) if is_error else ""
    todos = None if is_error else _task_change(_mapping(meant))
    yield ToolResult(id, line.at, line.sidechain, is_error, rejected, text, todos)
    if rejected:
        yield line.mark(MarkKind.REJECTED, text)


_OUTPUT_TAGS = ("local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr")
_STYLE = re.compile("\x1b\\[[0-9;:]*m")


def _spoken(line: _Line, text: str) -> Iterator[Mark]:
    """What a user line without results is: a command, its output, or a prompt."""
    if text.lstrip().startswith("<"):  # else a prompt that quotes a tag somewhere
        name, typed = _within(text, "command-name"), _within(text, "bash-input")
        output = [inside for tag in _OUTPUT_TAGS if (inside := _within(text, tag)) is not None]
        if name is not None:
            yield line.mark(MarkKind.COMMAND, f"{name} {_within(text, 'command-args') or ''}".strip())
            return
        if typed is not None:
            yield line.mark(MarkKind.COMMAND, f"!{typed}")
            return
        if output:
            yield _output(line, "\n".join(filter(None, output)))
            return
    origin = _name(_mapping(line.value.get("origin")).get("kind"))
    # Meta lines are reminders to the model and hooks' answers within a turn, unless they say where they are from.
    if text.strip() and (origin or line.value.get("isMeta") is not True):
        yield line.mark(MarkKind.PROMPT, text, origin or _name(line.value.get("promptSource")))


def _within(text: str, tag: str) -> str | None:
    """What stands within the first `<tag>`. By `find`: a pattern takes forever on a thousand open tags."""
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    return text[start + len(tag) + 2 : end] if 0 <= start < end else None


def _output(line: _Line, text: str) -> Mark:
    return line.mark(MarkKind.COMMAND_OUTPUT, _STYLE.sub("", text))


def _system(line: _Line) -> Iterator[Fact]:
    value = line.value
    content = _string(value.get("content"))
    match value.get("subtype"):
        case "turn_duration":
            counts = ("pendingBackgroundAgentCount", "pendingWorkflowCount")
            background = sum(_count(value.get(key)) or 0 for key in counts)
            yield line.mark(MarkKind.TURN_FINISHED, background=background)
        case "compact_boundary":
            about = _mapping(value.get("compactMetadata"))
            yield Compaction(
                line.at,
                _name(about.get("trigger")),
                _count(about.get("preTokens")),
                _count(about.get("postTokens")),
                line.sidechain,
            )
        case "local_command" if content.lstrip().startswith("<"):
            yield from _spoken(line, content)
        case "informational" if content.startswith("Unknown command"):
            yield _output(line, content)
        case _:
            pass


def _attachment(line: _Line) -> Iterator[Fact]:
    about = _mapping(line.value.get("attachment"))
    content = about.get("content")
    match about.get("type"):
        case "queued_command":
            yield line.mark(
                MarkKind.CONSUMED,
                _words(about.get("prompt")),
                _name(_mapping(about.get("origin")).get("kind")),
            )
        case "task_reminder" if isinstance(content, list):
            yield _todo_list(content)
        case "todo_reminder" if isinstance(content, list) and not line.sidechain:
            yield _todo_list(content)
        case _:
            pass


_QUEUE = {
    "enqueue": MarkKind.ENQUEUED,
    "dequeue": MarkKind.DEQUEUED,
    "remove": MarkKind.REMOVED,
    "popAll": MarkKind.WITHDRAWN,
    "popOne": MarkKind.WITHDRAWN,
}


def _queue(line: _Line) -> Iterator[Fact]:
    kind = _QUEUE.get(_name(line.value.get("operation")))
    if kind is not None:
        yield line.mark(kind, _string(line.value.get("content")))


_READERS: Mapping[str, Callable[[_Line], Iterator[Fact]]] = {
    "assistant": _assistant,
    "user": _user,
    "system": _system,
    "attachment": _attachment,
    "queue-operation": _queue,
}


# ------------------------------------------------------------------------------------------- the todo list


def _todo(value: object) -> Todo | None:
    about = _mapping(value)
    content = _string(about.get("content")) or _string(about.get("subject"))
    status = _name(about.get("status"))
    if not content or not status or _mapping(about.get("metadata")).get("_internal"):
        return None
    return Todo(_cut(content, ARGUMENT_MAX), status, _name(about.get("id")) or None)


def _todo_list(values: Sequence[object]) -> TodoList:
    return TodoList(tuple(todo for value in values[:TODOS_MAX] if (todo := _todo(value)) is not None))


def _task_change(result: Mapping[str, Any]) -> TodoList | TodoChange | None:
    """What the structured result of a Task tool says; its line does not name the tool, so the shape must be right.

    TaskCreate: {task: {id, subject}}, TaskGet: {task: {id, subject, status, blockedBy, ...}},
    TaskList: {tasks: [{id, subject, status, blockedBy}]}, TaskUpdate: {taskId, updatedFields, statusChange: {to}}.
    """
    tasks = result.get("tasks")
    if isinstance(tasks, list):
        return _todo_list(tasks) if all("blockedBy" in _mapping(task) for task in tasks) else None
    task = _mapping(result.get("task"))
    id, subject = _name(task.get("id")), _string(task.get("subject"))
    if id and subject and (len(task) == 2 or "blockedBy" in task):
        return TodoChange(id, _cut(subject, ARGUMENT_MAX), _name(task.get("status")) or "pending")
    id, status = _name(result.get("taskId")), _name(_mapping(result.get("statusChange")).get("to"))
    return TodoChange(id, None, status) if id and status and "updatedFields" in result else None


def changed(todos: tuple[Todo, ...], change: TodoList | TodoChange) -> tuple[Todo, ...]:
    """The list after the change, at most 200 entries."""
    if isinstance(change, TodoList):
        return change.items
    if change.status == "deleted":
        return tuple(todo for todo in todos if todo.id != change.id)
    if any(todo.id == change.id for todo in todos):
        return tuple(
            Todo(change.content or todo.content, change.status or todo.status, todo.id)
            if todo.id == change.id
            else todo
            for todo in todos
        )
    content = change.content or f"task {change.id}"
    return (*todos, Todo(content, change.status or "pending", change.id))[-TODOS_MAX:]


# -------------------------------------------------------------------------------------- for a person to read


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
    return folded(text, ARGUMENT_MAX)


# -------------------------------------------------------------------------------------- values of any shape


def shortened(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's arguments, cut to what may stay in memory: see `ToolUse.arguments`."""
    return {_cut(key, NAME_MAX): _small(value) for key, value in list(arguments.items())[:ARGUMENTS_MAX]}


def _small(value: object) -> object:
    if isinstance(value, str):
        return _cut(value, ARGUMENT_MAX)
    if not isinstance(value, (dict, list)):
        # A number can be a line long.
        return (
            value if not isinstance(value, int) or abs(value) <= _COUNT_MAX else f"{value.bit_length()} bits"
        )
    try:
        whole = json.dumps(value, ensure_ascii=False)
    except RecursionError:  # thousands of brackets
        whole = ""
    if 0 < len(whole) <= ARGUMENT_MAX and not _ODD.search(whole):
        return value
    return f"{{{len(value)} keys}}" if isinstance(value, dict) else f"[{len(value)} items]"


_HALF = re.compile("[\ud800-\udfff]")
_ODD = re.compile("[\ud800-\udfff]|[0-9]{19}")
"""What the daemon's JSON cannot hold: the half of an emoji, or an integer of more than 64 bits."""


def _cut(text: str, limit: int = TEXT_MAX) -> str:
    """`text` in at most `limit` characters: a long one loses its middle, a short limit its end."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[: half - 1]}…{text[-half:]}" if limit == TEXT_MAX else f"{text[: limit - 1]}…"
    return _HALF.sub("\ufffd", text)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _name(value: object) -> str:
    """A short string, or nothing: ids, models, kinds."""
    return _HALF.sub("\ufffd", value) if isinstance(value, str) and len(value) <= NAME_MAX else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _blocks(content: object) -> list[Mapping[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _words(content: object) -> str:
    """The text of a message: a string, or the text blocks of a list."""
    if isinstance(content, str):
        return content
    return "\n".join(_string(block.get("text")) for block in _blocks(content) if block.get("type") == "text")


def _count(value: object) -> int | None:
    """A number of tokens, or None for what is none. True is an int to Python, not to us."""
    return value if type(value) is int and 0 <= value <= _COUNT_MAX else None


# One form, because times are compared as texts.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)


def _time(value: object) -> str | None:
    """A time as claude writes it, or None: also for 30 February, and for a year that no clock shows."""
    if not isinstance(value, str) or not _TIME.fullmatch(value, endpos=40):
        return None
    return value if seconds_of(value) is not None else None


def seconds_of(at: str) -> float | None:
    """Seconds since the epoch; None for what is no time."""
    try:
        found = datetime.fromisoformat(at)
        return found.timestamp() if found.tzinfo is not None and is_time(found.timestamp()) else None
    except (ValueError, OverflowError):
        return None


def is_time(at_s: float) -> bool:
    """Whether a clock may have shown so many seconds since the epoch: after 1970, and before the year 5138.

    Whatever is made of such a number is a time again.
    """
    return 0 < at_s < 1e11
