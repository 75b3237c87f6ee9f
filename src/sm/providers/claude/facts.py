"""Parses the lines of Claude Code's transcript (JSONL). Pure.

Source: the files of claude 2.1.197, and the program itself. Invalid or unknown lines give no facts and never raise,
because agents can write the file and every release adds types.
Texts are truncated but keep control characters: fold them before showing them.

Each block of an API message is a separate line and repeats the usage, early ones with less output. Of the Usages with
one `message_id` use the one with the most output, and count a ToolUse once per `id`. A compaction writes the kept lines
again, and the first flush of a file can put an answer before its prompt, so order facts by `at`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from sm.core.dataclass import dataclass
from sm.core.text import MARK
from sm.core.usage import UNREAD, ToolUse, Usage
from sm.providers import values
from sm.providers.claude.background import is_notification
from sm.providers.claude.dialect import current
from sm.providers.claude.pasted_text import without_paste_tags
from sm.providers.claude.pricing import with_tariff
from sm.providers.claude.todos import TodoChange, TodoList, task_change, todo_list

WHOLE_MAX = 300_000
"""Maximum characters of a text that stays in memory untruncated."""
_VALUES_MAX = 30_000
"""Maximum commas in a line: the parser lets no other thread run until it has read the whole line."""
SYNTHETIC = "synthetic"
"""The detail of a text that no model wrote."""
FAST = "fast:"
"""Prefix of the model for messages in fast mode, which has separate prices."""

# --------------------------------------------------------------------------------------------- the facts


@dataclass(frozen=True, slots=True)
class ToolResult:
    tool_use_id: str
    at: str | None
    sidechain: bool
    is_error: bool = False
    rejected: bool = False
    """A person refused at the dialog, or interrupted the tool."""
    text: str = field(default="", repr=False)
    """Only for an error."""
    todos: TodoList | TodoChange | None = None
    """The result of a Task tool."""
    digest: str = field(default="", compare=False, repr=False)
    """Of the result."""


@dataclass(frozen=True, slots=True)
class HookRefusal:
    """A PermissionRequest hook refused a tool use. Missing in the transcripts of sub-agents (measured)."""

    tool_use_id: str
    at: str | None


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
    """A turn begins. detail: the author of the prompt (`human`, `task-notification`), or its source (`queued`)."""
    TEXT = "text"
    """A text of the assistant. detail SYNTHETIC: the rest of a message after an interrupt."""
    TURN_FINISHED = "turn_finished"
    """Also after an API error; not after an interrupt."""
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"
    """A person refused a tool. text: the text for the model."""
    API_ERROR = "api_error"
    """The turn failed after all retries. detail: the kind of error (`server_error`, `rate_limit`, ...)."""
    ENQUEUED = "enqueued"
    """A message waits in the agent's queue. Confirms delivery to a busy agent."""
    DEQUEUED = "dequeued"
    """Some queued message begins a turn (its PROMPT has the text)."""
    REMOVED = "removed"
    """Some queued message left the queue without a separate turn (its CONSUMED has the text)."""
    WITHDRAWN = "withdrawn"
    """A person moved a queued message back into the input box, unread."""
    CONSUMED = "consumed"
    """A queued message was handed to the model within a turn."""
    REFUSED = "refused"
    """A user's hook withheld a prompt from the model. text: the prompt, if known. detail: the hook's words."""
    STOPPED = "stopped"
    """A user's hook stopped the turn of the last PROMPT. The next turn reads it too. detail: the hook's words."""
    COMMAND = "command"
    """A slash command with its arguments, or `!command`. May begin a turn."""
    COMMAND_OUTPUT = "command_output"


@dataclass(frozen=True, slots=True)
class Mark:
    """An event of the conversation."""

    kind: MarkKind
    at: str | None
    text: str = field(default="", repr=False)
    """At most 4,000 characters."""
    prompt_id: str | None = None
    """The id of the turn, if the line has one; the same as in hooks."""
    detail: str = ""
    background: int = 0
    """TURN_FINISHED: number of background agents and workflows that still run."""
    http_status: int | None = None
    """API_ERROR: the status of the response, if there was one."""
    sidechain: bool = False
    whole: str = field(default="", repr=False)
    """The untruncated input text, if it may be a message of sm, or a command."""
    pasted: bool = False
    """See `AcceptedInput.pasted`."""
    parent: str | None = None
    """PROMPT: id of the preceding line of the conversation, empty for the first line."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The program that wrote an answer of the model."""

    at: str | None
    version: str
    sidechain: bool


Fact: TypeAlias = Writer | Usage | ToolUse | ToolResult | HookRefusal | TodoList | Compaction | Mark


def facts(line: bytes) -> tuple[Fact, ...]:
    """The facts of one line, in order; none if the line is invalid or has too many values. Never raises."""
    if line.count(b",") > _VALUES_MAX:
        return ()
    try:
        # Not orjson, which rejects lone surrogates: JavaScript leaves them when it truncates an emoji.
        value = json.loads(line.decode("utf-8", "replace"))
        return tuple(_read(current().renamed("transcript", value))) if isinstance(value, dict) else ()
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
        text, pasted = without_paste_tags(text) if kind in _INPUTS else (text, False)
        may_be_message = (
            kind in _INPUTS and MARK in text and not is_notification(text) and len(text) <= WHOLE_MAX
        ) or is_command(kind, text)
        whole = values.replace_surrogates(text) if may_be_message else ""
        has_parent = kind is MarkKind.PROMPT and "parentUuid" in self.value
        parent = values.name(self.value["parentUuid"]) if has_parent else None
        return Mark(
            kind,
            self.at,
            values.cut(text),
            self.prompt_id,
            detail,
            background,
            sidechain=self.sidechain,
            whole=whole,
            pasted=pasted,
            parent=parent,
        )


_INPUTS = frozenset(
    {MarkKind.PROMPT, MarkKind.ENQUEUED, MarkKind.CONSUMED, MarkKind.WITHDRAWN, MarkKind.REFUSED}
)
_COMMANDS = frozenset({MarkKind.COMMAND, MarkKind.ENQUEUED, MarkKind.WITHDRAWN})
_COMMAND_MAX = 1_000


def is_command(kind: MarkKind, text: str) -> bool:
    """True for a slash command, which is also carried out if a person or sm put it into the queue."""
    return kind in _COMMANDS and text.startswith("/") and len(text) <= _COMMAND_MAX


def _read(value: Mapping[str, Any]) -> Iterator[Fact]:
    kind = current().table("transcript.types").get(values.name(value.get("type")), "")
    reader = _READERS.get(kind)
    if reader is None and values.mapping(value.get("message")).get("role") == "assistant":
        reader = _unknown_answer
    if reader is not None:
        line = _Line(
            value,
            values.time(value.get("timestamp")),
            value.get("isSidechain") is True,
            values.name(value.get("promptId")) or None,
        )
        yield from reader(line)


def _assistant(line: _Line) -> Iterator[Fact]:
    message = values.mapping(line.value.get("message"))
    if line.value.get("isApiErrorMessage") is True:
        error = line.mark(
            MarkKind.API_ERROR,
            values.words(message.get("content")),
            values.name(line.value.get("error")) or "unknown",
        )
        yield replace(error, http_status=values.count(line.value.get("apiErrorStatus")))
        return
    model = values.name(message.get("model"))
    words = current()
    is_synthetic = model in words.texts("transcript.synthetic")
    if not is_synthetic:
        if version := values.name(line.value.get("version")):
            yield Writer(line.at, version, line.sidechain)
        yield from _usage(line, message, model)
    for block in values.blocks(message.get("content")):
        match block.get("type"):
            case "text":
                text = values.string(block.get("text"))
                if is_synthetic and text not in words.texts("transcript.nothing_said"):
                    yield line.mark(MarkKind.TEXT, text, SYNTHETIC)
                elif not is_synthetic and text.strip():
                    yield line.mark(MarkKind.TEXT, text)
            case "tool_use":
                yield from _tool_use(line, block)
            case _:  # thinking, and unknown types
                pass


def _unknown_answer(line: _Line) -> Iterator[Usage]:
    """Read a line of an unknown type with a message of the model: it may repeat the usage of another line."""
    yield from _usage(line, {**values.mapping(line.value.get("message")), "usage": None}, "")


def _usage(line: _Line, message: Mapping[str, Any], model: str) -> Iterator[Usage]:
    usage = values.mapping(message.get("usage"))
    message_id = values.name(message.get("id")) or values.name(line.value.get("requestId"))
    # Numbers that each usage has.
    fresh, output = (values.known_tokens(usage.get(name)) for name in ("input_tokens", "output_tokens"))
    if fresh is None or output is None or not message_id or not model:
        # Unknown is better than too little. Without the id of a message, each line of it would count.
        message_id = message_id or values.name(line.value.get("uuid"))
        if message and message_id:
            yield Usage(message_id, f"{model}{UNREAD}", line.at or "", sidechain=line.sidechain)
        return
    cache_write = values.tokens(usage.get("cache_creation_input_tokens"))
    created = values.mapping(usage.get("cache_creation"))
    for_an_hour = values.tokens(created.get("ephemeral_1h_input_tokens"))
    cache_read = values.tokens(usage.get("cache_read_input_tokens"))
    billed_as = with_tariff(model, fresh + cache_read + cache_write)
    yield Usage(
        message_id,
        f"{FAST}{model}" if usage.get("speed") == "fast" else billed_as,
        line.at or "",
        input=fresh,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        cache_write_1h=min(for_an_hour, cache_write),
        sidechain=line.sidechain,
    )


def _tool_use(line: _Line, block: Mapping[str, Any]) -> Iterator[Fact]:
    id, name = values.name(block.get("id")), values.name(block.get("name"))
    if not id or not name:
        return
    given = values.mapping(block.get("input"))
    digest = values.digest(name, given)
    yield ToolUse(id, name, line.at or "", values.shorten_arguments(given), line.sidechain, digest)
    # TodoWrite has a separate list for each sub-agent; the Task tools have one list for the session.
    if name == "TodoWrite" and isinstance(given.get("todos"), list) and not line.sidechain:
        yield todo_list(given["todos"])


def _user(line: _Line) -> Iterator[Fact]:
    content = values.mapping(line.value.get("message")).get("content")
    results = [block for block in values.blocks(content) if block.get("type") == "tool_result"]
    for result in results:
        yield from _tool_result(line, result, alone=len(results) == 1)
    text = values.words(content)
    if text.startswith(current().texts("transcript.interrupted")):
        yield line.mark(MarkKind.INTERRUPTED, text)
    elif not results and line.value.get("isCompactSummary") is not True:
        yield from _prompt_marks(line, text)


def _tool_result(line: _Line, block: Mapping[str, Any], *, alone: bool) -> Iterator[Fact]:
    id = values.name(block.get("tool_use_id"))
    if not id:
        return
    meant = line.value.get("toolUseResult") if alone else None
    is_error = block.get("is_error") is True
    text = values.cut(values.words(block.get("content"))) if is_error else ""
    words = current()
    rejected = is_error and (
        meant in words.texts("transcript.rejected_result")
        or line.value.get("toolDenialKind") in words.texts("transcript.rejected_kind")
        or text.startswith(words.texts("transcript.rejected"))
    )
    todos = None if is_error else task_change(values.mapping(meant))
    digest = values.digest("", block.get("content"))
    yield ToolResult(id, line.at, line.sidechain, is_error, rejected, text, todos, digest)
    if rejected:
        yield line.mark(MarkKind.REJECTED, text)


_STYLE = re.compile("\x1b\\[[0-9;:]*m")


def _prompt_marks(line: _Line, text: str) -> Iterator[Mark]:
    """Classify a user line without results: a command, its output, or a prompt."""
    text, pasted = without_paste_tags(text)
    if not pasted and text.lstrip().startswith("<"):  # otherwise a prompt that quotes a tag
        name, typed = _tagged(text, "command_tag"), _tagged(text, "shell_tag")
        tags = current().texts("transcript.output_tags")
        output = [inside for tag in tags if (inside := _tag_content(text, tag)) is not None]
        if name is not None:
            yield line.mark(MarkKind.COMMAND, f"{name} {_tagged(text, 'arguments_tag') or ''}".strip())
            return
        if typed is not None:
            yield line.mark(MarkKind.COMMAND, f"!{typed}")
            return
        if output:
            yield _output(line, "\n".join(filter(None, output)))
            return
    origin = values.name(values.mapping(line.value.get("origin")).get("kind"))
    source = origin or values.name(line.value.get("promptSource"))
    if not source and text.startswith(current().texts("transcript.hook_stopped")):
        return  # a system line reports the same
    # Meta lines without an origin are reminders to the model, and hook answers within a turn.
    if text.strip() and (origin or line.value.get("isMeta") is not True):
        yield replace(line.mark(MarkKind.PROMPT, text, source), pasted=pasted)


def _tagged(text: str, name: str) -> str | None:
    """The content of the first element that has one of the tags of a fact."""
    contents = (_tag_content(text, tag) for tag in current().texts(f"transcript.{name}"))
    return next((content for content in contents if content is not None), None)


def _tag_content(text: str, tag: str) -> str | None:
    """The content of the first `<tag>`. Uses `find`, because a pattern would backtrack on a thousand open tags."""
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    return text[start + len(tag) + 2 : end] if 0 <= start < end else None


def _output(line: _Line, text: str) -> Mark:
    return line.mark(MarkKind.COMMAND_OUTPUT, _STYLE.sub("", text))


def _system(line: _Line) -> Iterator[Fact]:
    value = line.value
    content = values.string(value.get("content"))
    match value.get("subtype"):
        case "turn_duration":
            counts = ("pendingBackgroundAgentCount", "pendingWorkflowCount")
            background = sum(values.count(value.get(key)) or 0 for key in counts)
            yield line.mark(MarkKind.TURN_FINISHED, background=background)
        case "compact_boundary":
            about = values.mapping(value.get("compactMetadata"))
            yield Compaction(
                line.at,
                values.name(about.get("trigger")),
                values.count(about.get("preTokens")),
                values.count(about.get("postTokens")),
                line.sidechain,
            )
        case "local_command" if content.lstrip().startswith("<"):
            yield from _prompt_marks(line, content)
        case "informational" if content.startswith(current().texts("transcript.unknown_command")):
            yield _output(line, content)
        case "informational" if value.get("preventContinuation") is True:
            yield from _refusal(line, content)
        case _:
            pass


def _refusal(line: _Line, text: str) -> Iterator[Mark]:
    """The answer of a user's hook to a prompt: `decision: block`, exit code 2 or `continue: false`."""
    words = current()
    refused = next((head for head in words.texts("transcript.hook_refused") if text.startswith(head)), None)
    stopped = next((head for head in words.texts("transcript.hook_stopped") if text.startswith(head)), None)
    if refused is not None:
        answer = text.removeprefix(refused)
        separators = words.texts("transcript.hook_refused_prompt")
        # The hook's own words may hold a separator; prefer the one directly before a message header of sm.
        cuts = [(answer.find(f"{cut}{MARK} from "), cut) for cut in separators]
        cuts += [(answer.find(cut), cut) for cut in separators]
        at, cut = next((found for found in cuts if found[0] >= 0), (len(answer), ""))
        yield line.mark(MarkKind.REFUSED, answer[at + len(cut) :], values.cut(answer[:at]))
    elif stopped is not None:
        yield line.mark(MarkKind.STOPPED, detail=values.cut(text.removeprefix(stopped).removeprefix(": ")))


def _attachment(line: _Line) -> Iterator[Fact]:
    about = values.mapping(line.value.get("attachment"))
    content = about.get("content")
    match about.get("type"):
        case "queued_command":
            yield line.mark(
                MarkKind.CONSUMED,
                values.words(about.get("prompt")),
                values.name(values.mapping(about.get("origin")).get("kind")),
            )
        case "hook_permission_decision" if about.get("decision") == "deny":
            if id := values.name(about.get("toolUseID")):
                yield HookRefusal(id, line.at)
        case "task_reminder" if isinstance(content, list):
            yield todo_list(content)
        case "todo_reminder" if isinstance(content, list) and not line.sidechain:
            yield todo_list(content)
        case _:
            pass


def _queue(line: _Line) -> Iterator[Fact]:
    kind = current().table("transcript.queue").get(values.name(line.value.get("operation")))
    if kind is not None:
        yield line.mark(MarkKind(kind), values.string(line.value.get("content")))


_READERS: Mapping[str, Callable[[_Line], Iterator[Fact]]] = {
    "assistant": _assistant,
    "user": _user,
    "system": _system,
    "attachment": _attachment,
    "queue-operation": _queue,
}
