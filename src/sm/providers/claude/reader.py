"""`Reader` for Claude Code: its hooks, state file, transcript, title and screen, each in a word. Pure.

Source: the real program, 2.1.197. Whatever does not look like it means nothing; it never means something else.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from sm.core.messages import Request
from sm.core.models import Process
from sm.core.observation import Activity, Observation, Source
from sm.core.text import folded
from sm.core.usage import ActionLine, Todo, ToolUse, Usage
from sm.providers.base import Dialog, Heard, HookNews, TranscriptNews, Trouble
from sm.providers.claude.actions import last_actions
from sm.providers.claude.decisions import decision, read_dialog
from sm.providers.claude.hooks import conversation_id, read_hook
from sm.providers.claude.pricing import Prices, context_window, cost_usd
from sm.providers.claude.screen import Obstacle, State, read_screen, read_title
from sm.providers.claude.todos import TodoList, changed
from sm.providers.claude.transcript import Compaction, Fact, Mark, MarkKind, ToolResult, facts_of
from sm.providers.claude.trouble import explain
from sm.providers.claude.values import is_time, seconds_of

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]")

_STOP_HOOK = "running stop hook"
_ACTIVITIES = {
    State.IDLE: Activity.IDLE,
    State.WORKING: Activity.BUSY,
    State.PERMISSION: Activity.BLOCKED,
    State.QUESTION: Activity.BLOCKED,
    State.DIALOG: Activity.BLOCKED,
    State.BLOCKED: Activity.BLOCKED,
}
_ANSWERS_NO_PROMPT = frozenset({Obstacle.LOGIN, Obstacle.BAD_MODEL})
"""It has started, has an input box and fails each turn until a person has done something."""


class ClaudeReader:
    """What the configuration adds: prices by the beginning of a model's name."""

    def __init__(self, prices: Mapping[str, Prices]) -> None:
        self._prices = prices

    def hook(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookNews:
        return read_hook(payload, at, expects_turn=expects_turn)

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        return read_dialog(payload, cut=cut)

    def decision(self, request: Request, by: str) -> str | None:
        return decision(request, by)

    def home(self, environment: Mapping[str, str]) -> str:
        """That of its transcripts: what an agent names elsewhere is not read. It may be a link of its user's."""
        return f"{config_dir(environment)}/projects"

    def state_file(self, environment: Mapping[str, str], pid: int) -> str:
        return f"{config_dir(environment)}/sessions/{pid}.json"

    def state(self, text: bytes, process: Process) -> tuple[Observation, str] | None:
        """The file outlives a claude that was killed with SIGKILL: only the same process's own word counts."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        at = _updated_at(value)
        # By their types too: True is 1 to Python.
        if at is None or type(value.get("pid")) is not int or value["pid"] != process.pid:
            return None
        started = value.get("procStart")
        if isinstance(started, str | int) and str(started) != process.started.rpartition("/")[2]:
            return None
        waits_for = folded(_text(value.get("waitingFor")) or "an answer", 80)
        match value.get("status"):
            case "idle":
                activity, reason = Activity.IDLE, "it says idle"
            case "shell":
                activity, reason = Activity.IDLE, "it says idle, with a shell in the background"
            case "busy":
                activity, reason = Activity.BUSY, "it says busy"
            case "waiting":
                activity, reason = Activity.BLOCKED, f"it waits: {waits_for}"
            case _:
                return None
        said = Observation(Source.STATE_FILE, activity, at, reason)
        return said, conversation_id(value.get("sessionId")) or ""

    def transcript(self, environment: Mapping[str, str], working_dir: str, conversation: str) -> str:
        """`working_dir`: by its real path, as claude names it."""
        slug = _NOT_IN_A_NAME.sub("-", working_dir)
        return f"{self.home(environment)}/{slug}/{conversation}.jsonl"

    def lines(self, lines: Sequence[bytes], *, sidechain: bool, todo: Sequence[Todo]) -> TranscriptNews:
        facts = facts_of(lines)
        usage = [fact for fact in facts if isinstance(fact, Usage)]
        todos, context = tuple(todo), None
        for fact in facts:
            match fact:
                case TodoList():
                    todos = changed(todos, fact)
                case ToolResult() if fact.todos is not None:
                    todos = changed(todos, fact.todos)
                case Usage() if not fact.sidechain:
                    context = fact.context
                case Compaction() if fact.post_tokens is not None and not fact.sidechain:
                    context = fact.post_tokens
                case _:
                    pass
        said = () if sidechain else tuple(o for fact in facts if (o := _observed(fact)) is not None)
        tools = tuple(fact for fact in facts if isinstance(fact, ToolUse))
        heard = () if sidechain else tuple(h for fact in facts if (h := _heard(fact)) is not None)
        ended = {fact.tool_use_id: not fact.rejected for fact in facts if isinstance(fact, ToolResult)}
        finished = None if sidechain else _finished(facts)
        return TranscriptNews(said, tuple(usage), tools, todos, context, heard, finished, ended)

    def actions(self, lines: Sequence[bytes], count: int, working_dir: str) -> Sequence[ActionLine]:
        return last_actions(lines, count, working_dir)

    def cost_usd(self, usages: Sequence[Usage]) -> float | None:
        return cost_usd(usages, self._prices)

    def context_window(self, model: str) -> int:
        return context_window(model)

    def title(self, glyph: str, at: float) -> Observation | None:
        match read_title(f"{glyph} "):
            case State.WORKING:
                return Observation(Source.TITLE, Activity.BUSY, at, "its title turns")
            case State.IDLE:
                return Observation(Source.TITLE, Activity.IDLE, at, "its title stands", doubtful=True)
            case _:
                return None

    def screen(self, lines: Sequence[str], at: float) -> Observation | None:
        seen = read_screen(lines)
        if seen.obstacle in _ANSWERS_NO_PROMPT and (why := explain(lines, working_dir="", exited=False)):
            said = f"{why.message}; hint: {why.hint}"
            return Observation(Source.SCREEN, Activity.BLOCKED, at, folded(said, 300))
        activity = _ACTIVITIES.get(seen.state)
        if _STOP_HOOK in seen.what:  # the turn is over: it waits for us
            return None
        return None if activity is None else Observation(Source.SCREEN, activity, at, folded(seen.what, 200))

    def trouble(self, screen: Sequence[str], working_dir: str, *, exited: bool) -> Trouble | None:
        found = explain(screen, working_dir=working_dir, exited=exited)
        if found is not None and found.ended and not exited:
            return None  # its end comes at once, and tells the same
        return None if found is None else Trouble(folded(found.message, 300), folded(found.hint, 300))


def config_dir(environment: Mapping[str, str]) -> str:
    """Where claude keeps everything of its user's, but for `.claude.json` where CLAUDE_CONFIG_DIR is not set."""
    return environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '')}/.claude"


def _updated_at(state: object) -> float | None:
    """When a published state began, in seconds since the epoch; None: the file does not say."""
    at_ms = state.get("statusUpdatedAt") if isinstance(state, dict) else None
    if isinstance(at_ms, bool) or not isinstance(at_ms, int | float):
        return None
    # Compared before it is divided: an integer may be larger than any float.
    return at_ms / 1000 if 0 < at_ms < 1e14 and is_time(at_ms / 1000) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _heard(fact: Fact) -> Heard | None:
    """What somebody has given to the agent."""
    if not isinstance(fact, Mark) or fact.at is None:
        return None
    kind, at = fact.kind, seconds_of(fact.at)
    kept_back = kind in (MarkKind.REFUSED, MarkKind.STOPPED) and not (fact.text and not fact.whole)
    if at is None or not (fact.whole or fact.parent is not None or kept_back):
        return None
    return Heard(
        fact.whole,
        at,
        queued=kind is MarkKind.ENQUEUED,
        withdrawn=kind is MarkKind.WITHDRAWN,
        refused=fact.detail if kept_back else None,
        kept=kind is MarkKind.STOPPED,
        parent=fact.parent,
    )


def _finished(facts: Sequence[Fact]) -> float | None:
    """When the last turn was finished, if it was the last thing that became of one: it is also said of a failed one."""
    ends = (MarkKind.TURN_FINISHED, MarkKind.API_ERROR, MarkKind.INTERRUPTED)
    marks = [fact for fact in facts if isinstance(fact, Mark) and fact.kind in ends]
    failed = len(marks) > 1 and marks[-2].kind is MarkKind.API_ERROR
    if not marks or marks[-1].kind is not MarkKind.TURN_FINISHED or failed or marks[-1].at is None:
        return None
    return seconds_of(marks[-1].at)


def _observed(fact: Fact) -> Observation | None:
    """What a line of the conversation itself says of what the agent does."""
    when: str | None = getattr(fact, "at", None)
    at = None if when is None else seconds_of(when)
    if at is None:
        return None

    def said(activity: Activity, reason: str, *, final: bool = False, turn: str | None = None) -> Observation:
        return Observation(Source.TRANSCRIPT, activity, at, reason, turn, final=final)

    match fact:
        case ToolUse():
            return said(Activity.BUSY, f"it calls {folded(fact.name, 80)}")
        case ToolResult():
            return said(Activity.BUSY, "a tool is done")
        case Mark():
            return _marked(fact, said)
        case _:
            return None


def _marked(mark: Mark, said: Any) -> Observation | None:
    found: Observation | None
    match mark.kind:
        case MarkKind.PROMPT | MarkKind.CONSUMED:
            found = said(Activity.BUSY, "a turn begins")
        case MarkKind.TURN_FINISHED if mark.background:
            found = said(Activity.BUSY, f"its turn is finished, background agents: {mark.background}")
        case MarkKind.TURN_FINISHED:
            found = said(Activity.IDLE, "its turn is finished", final=True)
        case MarkKind.INTERRUPTED:
            found = said(Activity.IDLE, "it was interrupted", final=True)
        case MarkKind.API_ERROR:
            found = said(Activity.IDLE, f"its turn failed: {folded(mark.text, 200)}", final=True)
        case (
            # An interruption follows, unless the person has said how to go on.
            MarkKind.REJECTED
            | MarkKind.TEXT
            | MarkKind.ENQUEUED
            | MarkKind.DEQUEUED
            | MarkKind.REMOVED
            | MarkKind.WITHDRAWN
            | MarkKind.REFUSED
            | MarkKind.STOPPED
            | MarkKind.COMMAND
            | MarkKind.COMMAND_OUTPUT
        ):
            found = None
        case _:
            assert_never(mark.kind)
    return found
