"""Finds and interprets claude's transcripts. Pure.

Source: claude 2.1.197. Lines of an unknown form are ignored.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from sm.core.dataclass import dataclass
from sm.core.faults import fault_reason
from sm.core.observation import Activity, Observation, Source
from sm.core.task_text import task_of
from sm.core.text import folded
from sm.core.turns import TurnWork
from sm.core.usage import SaidText, Todo, ToolUse, Usage
from sm.providers.claude.actions import last_actions
from sm.providers.claude.calls import calls_of
from sm.providers.claude.facts import (
    Compaction,
    Fact,
    HookRefusal,
    Mark,
    MarkKind,
    ToolResult,
    Writer,
    facts_of,
    is_command,
)
from sm.providers.claude.faults import read_fault
from sm.providers.claude.home import config_dir
from sm.providers.claude.todos import TodoList, apply_change
from sm.providers.readers import (
    ANSWER_MAX,
    AcceptedInput,
    LastTurn,
    ToolEnd,
    TranscriptDelta,
    TranscriptEntry,
)
from sm.providers.values import seconds_of

_SAID_MAX = 4_000
_NO_WORK = TurnWork()
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9]")


class ClaudeTranscriptReader:
    def root(self, environment: Mapping[str, str]) -> str:
        """The directory may be a link created by the user."""
        return f"{config_dir(environment)}/projects"

    def path(self, environment: Mapping[str, str], working_dir: str, conversation: str) -> str:
        slug = _NOT_IN_A_NAME.sub("-", working_dir)
        return f"{self.root(environment)}/{slug}/{conversation}.jsonl"

    def delta(
        self,
        lines: Sequence[bytes],
        *,
        sidechain: bool,
        todo: Sequence[Todo],
        failed: bool = False,
        work: TurnWork = _NO_WORK,
    ) -> TranscriptDelta:
        facts = facts_of(lines)
        usage = [fact for fact in facts if isinstance(fact, Usage)]
        todos, context = tuple(todo), None
        for fact in facts:
            match fact:
                case TodoList():
                    todos = apply_change(todos, fact)
                case ToolResult() if fact.todos is not None:
                    todos = apply_change(todos, fact.todos)
                case Usage() if not fact.sidechain:
                    context = None if fact.is_unread else fact.context
                case Compaction() if fact.post_tokens is not None and not fact.sidechain:
                    context = fact.post_tokens
                case _:
                    pass
        tools = tuple(fact for fact in facts if isinstance(fact, ToolUse))
        ended = tuple(end for fact in facts if (end := _tool_end(fact)) is not None)
        said = _said(facts)
        if sidechain:
            return TranscriptDelta(
                (), tuple(usage), tools, todos, context, said=said, tools_ended=ended, work=work
            )
        turns = _read_turns(facts, failed=failed)
        return TranscriptDelta(
            tuple(turns.observations),
            tuple(usage),
            tools,
            todos,
            context,
            tuple(accepted for fact in facts if (accepted := _accepted(fact)) is not None),
            turns.failed,
            turns.finished_at,
            _answer(facts),
            said,
            ended,
            calls_of(facts),
            _work(facts, work),
            next((f.version for f in reversed(facts) if isinstance(f, Writer)), ""),
        )

    def entries(self, lines: Sequence[bytes]) -> Sequence[TranscriptEntry]:
        """Every line with a `uuid`, also that of a compaction, which follows nothing."""
        return [entry for line in lines if (entry := _entry(line)) is not None]

    def last_turn(self, lines: Sequence[bytes]) -> LastTurn | None:
        timed = [(at, fact) for fact in facts_of(lines) if (at := _time_of(fact)) is not None]
        timed.sort(key=lambda item: item[0])  # the first flush of a file can put an answer before its prompt
        return _last_turn(timed)

    actions = staticmethod(last_actions)


def _entry(line: bytes) -> TranscriptEntry | None:
    if b'"uuid"' not in line:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("uuid"), str):
        return None
    follows, at = value.get("parentUuid"), value.get("timestamp")
    return TranscriptEntry(
        value["uuid"],
        follows if isinstance(follows, str) and follows else None,
        folded(at, 40) if isinstance(at, str) else "",
    )


def _time_of(fact: Fact) -> float | None:
    """The time of a fact about the agent itself, or None if it is about a sub-agent or has no time."""
    if isinstance(fact, TodoList) or getattr(fact, "sidechain", False) or not fact.at:
        return None
    return seconds_of(fact.at)


_BEGINNINGS = frozenset({MarkKind.PROMPT, MarkKind.CONSUMED})
_NO_FINISH = frozenset({MarkKind.INTERRUPTED, MarkKind.API_ERROR, MarkKind.REJECTED})


def _last_turn(timed: Sequence[tuple[float, Fact]]) -> LastTurn | None:
    """`timed`: the facts with their times, in the order of the times."""
    ended_at, answered_at, answer, tools = None, None, "", 0
    is_last_message = True
    for at, fact in reversed(timed):
        kind = fact.kind if isinstance(fact, Mark) else None
        # A line of an unknown type, which may come after the end of the turn, gives unread usage.
        works = kind is MarkKind.TEXT or isinstance(fact, (ToolUse, ToolResult))
        works = works or (isinstance(fact, Usage) and not fact.is_unread)
        if ended_at is None:
            if works or kind in _BEGINNINGS or kind in _NO_FINISH:
                return None
            if isinstance(fact, Mark) and kind is MarkKind.TURN_FINISHED:
                if fact.background:
                    return None
                ended_at = at
            continue
        if kind in _BEGINNINGS or kind is MarkKind.TURN_FINISHED:
            break
        if kind in _NO_FINISH and answered_at is None:
            return None
        if works and answered_at is None:
            answered_at = at
        if isinstance(fact, (ToolUse, ToolResult)):
            is_last_message = False
            tools += isinstance(fact, ToolUse)
        if isinstance(fact, Mark) and kind is MarkKind.TEXT and is_last_message:
            answer = answer or fact.text
    if ended_at is None or answered_at is None:
        return None
    end = Observation(Source.TRANSCRIPT, Activity.IDLE, ended_at, "the turn finished", final=True)
    return LastTurn(replace(end, answer=answer, finished=True), answered_at, tools)


def _tool_end(fact: Fact) -> ToolEnd | None:
    match fact:
        case HookRefusal():
            return ToolEnd(fact.tool_use_id, False, None if fact.at is None else seconds_of(fact.at))
        case ToolResult():
            # An error may be that of a tool which ran, or a refusal of a rule or of a hook.
            allowed = False if fact.rejected else None if fact.is_error else True
            return ToolEnd(fact.tool_use_id, allowed, None if fact.at is None else seconds_of(fact.at))
        case _:
            return None


_TASK_NOTIFICATION = "task-notification"


def _work(facts: Sequence[Fact], work: TurnWork) -> TurnWork:
    """The agent's work in the last turn of these facts. `work`: in the turn before them."""
    for fact in facts:
        match fact:
            case ToolUse() if not fact.sidechain:
                work = work.start_tool()
            case ToolResult() if not fact.sidechain:
                work = work.end_tool(failed=fact.is_error)
            case Mark() if fact.sidechain or fact.detail == _TASK_NOTIFICATION:
                pass  # a sub-agent has ended: the work for the same prompt goes on
            case Mark(MarkKind.PROMPT):
                work = work.begin(task_of(fact.text))
            case Mark(MarkKind.CONSUMED):
                work = work.add_task(task_of(fact.text))
            case _:
                pass
    return work


def _accepted(fact: Fact) -> AcceptedInput | None:
    if not isinstance(fact, Mark) or fact.at is None:
        return None
    kind, at = fact.kind, seconds_of(fact.at)
    kept_back = kind in (MarkKind.REFUSED, MarkKind.STOPPED) and not (fact.text and not fact.whole)
    if at is None or not (fact.whole or fact.parent is not None or kept_back):
        return None
    return AcceptedInput(
        fact.whole,
        at,
        queued=kind is MarkKind.ENQUEUED,
        withdrawn=kind is MarkKind.WITHDRAWN,
        refused=fact.detail if kept_back else None,
        kept=kind is MarkKind.STOPPED,
        pasted=fact.pasted,
        parent=fact.parent,
        command=is_command(kind, fact.whole),
    )


def _said(facts: Sequence[Fact]) -> tuple[SaidText, ...]:
    found = []
    for fact in facts:
        if isinstance(fact, ToolUse):
            words = f"{fact.name} {json.dumps(dict(fact.arguments), ensure_ascii=False, default=str)}"
            found.append(SaidText(f"tool {fact.id}", fact.at, "tool", words[:_SAID_MAX]))
        elif isinstance(fact, Mark) and fact.kind is MarkKind.TEXT and fact.text:
            key = hashlib.sha256(f"{fact.at} {fact.text}".encode("utf-8", "replace")).hexdigest()[:32]
            found.append(SaidText(f"text {key}", fact.at or "", "text", fact.text))
    return tuple(found)


def _answer(facts: Sequence[Fact]) -> str | None:
    texts = [f.text for f in facts if isinstance(f, Mark) and f.kind is MarkKind.TEXT and not f.sidechain]
    return folded(texts[-1], ANSWER_MAX) if texts else None


_BEGINS = (Activity.BUSY, "a turn began")
_ACTIVITIES: Mapping[MarkKind, tuple[Activity, str]] = {
    MarkKind.PROMPT: _BEGINS,
    MarkKind.CONSUMED: _BEGINS,
    MarkKind.TURN_FINISHED: (Activity.IDLE, "the turn finished"),
    MarkKind.INTERRUPTED: (Activity.IDLE, "the turn was interrupted"),
}
"""The activity after each mark. REJECTED is missing, because an interrupt or new instructions follow."""


@dataclass
class _Turns:
    observations: list[Observation] = field(default_factory=list)
    finished_at: float | None = None
    """The time at which the last turn finished; None if it failed or was interrupted."""
    failed: bool = False
    """The last turn has failed, and its TURN_FINISHED is still to come."""


def _read_turns(facts: Sequence[Fact], *, failed: bool) -> _Turns:
    """Read the turns in these facts. claude writes TURN_FINISHED also after a failed turn, which is only its failure.

    `failed`: as in `_Turns`, before these facts: claude may write the failure and TURN_FINISHED apart.
    """
    turns = _Turns(failed=failed)
    for fact in facts:
        kind = fact.kind if isinstance(fact, Mark) and not fact.sidechain else None
        if kind is MarkKind.TURN_FINISHED and turns.failed:
            turns.failed, turns.finished_at = False, None
            continue
        observation = _observation(fact)
        if kind is MarkKind.API_ERROR:
            turns.failed, turns.finished_at = True, None
        elif observation is not None:
            turns.failed = False
        if kind is MarkKind.INTERRUPTED:
            turns.finished_at = None
        elif isinstance(fact, Mark) and kind is MarkKind.TURN_FINISHED:
            turns.finished_at = seconds_of(fact.at) if fact.at else None
        if observation is not None:
            if isinstance(fact, Mark) and kind is MarkKind.PROMPT:
                observation = replace(observation, turn=fact.prompt_id)
            turns.observations.append(observation)
    return turns


def _failure(error: Mark) -> Observation | None:
    at = seconds_of(error.at) if error.at else None
    if at is None:
        return None
    fault = read_fault(error.detail, error.text, at, error.http_status)
    return Observation(
        Source.TRANSCRIPT, Activity.IDLE, at, fault_reason(fault, at), final=True, answer="", fault=fault
    )


def _observation(fact: Fact) -> Observation | None:
    match fact:
        case ToolUse():
            activity, reason = Activity.BUSY, f"claude called {folded(fact.name, 80)}"
        case ToolResult():
            activity, reason = Activity.BUSY, "a tool finished"
        case Mark(MarkKind.TURN_FINISHED) if fact.background:
            activity, reason = Activity.BUSY, f"the turn finished, background agents: {fact.background}"
        case Mark(MarkKind.API_ERROR) if not fact.sidechain:
            return _failure(fact)
        case Mark() if fact.kind in _ACTIVITIES:
            activity, reason = _ACTIVITIES[fact.kind]
        case _:
            return None
    at = seconds_of(fact.at) if fact.at else None
    if at is None:
        return None
    # Not after INTERRUPTED: a person knows of the interrupt.
    answer = "" if isinstance(fact, Mark) and fact.kind is MarkKind.TURN_FINISHED else None
    return Observation(
        Source.TRANSCRIPT, activity, at, reason, final=activity is Activity.IDLE, answer=answer
    )
