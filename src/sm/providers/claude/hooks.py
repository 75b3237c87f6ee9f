"""Reads the hook events of Claude Code (measured on 2.1.197; code.claude.com, Hooks reference). Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sm.core.observation import Activity, Observation, Source
from sm.core.requests import Request
from sm.core.text import folded
from sm.core.usage import ToolUse
from sm.providers.claude.actions import tool_line
from sm.providers.claude.decisions import PLANS, decision, plan_of, read_dialog
from sm.providers.claude.values import digest, shortened
from sm.providers.readers import FIRST_TURN_S, AcceptedInput, Dialog, HookEvent

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
)
"""The events that mean something to sm: each costs the agent the start of a process."""

_WORD_MAX = 200
_REASON_MAX = 300
_PATH_MAX = 4096
_PROMPT_CUT_AT = 60_000
"""`sm hook` sends no more of a prompt. What is longer the transcript tells whole."""
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ClaudeHookReader:
    """`HookReader` for claude."""

    ending_event = "SessionEnd"

    def event(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
        return read_hook(payload, at, expects_turn=expects_turn)

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        return read_dialog(payload, cut=cut)

    def plan(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return plan_of(tool, arguments)

    def decision(self, request: Request, by: str) -> str | None:
        return decision(request, by)


class _Observe(Protocol):
    def __call__(
        self, activity: Activity, reason: str, *, opens: bool = False, final: bool = False
    ) -> Observation: ...


def tool_of(name: str, arguments: object) -> str:
    """A tool and what it is used on, in one line: `Bash: npm test`, `Write → tests/api.test.ts`."""
    given = shortened(arguments) if isinstance(arguments, Mapping) else {}
    return tool_line(ToolUse("", folded(name, 80), "", given))


def read_hook(payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
    """What one event means. `at`: seconds since the epoch when it was emitted.

    Nothing here may raise: the payload comes from a program that an agent can imitate.
    """
    name = _word(payload, "hook_event_name")
    turn = _word(payload, "prompt_id") or None
    sub = _word(payload, "agent_id")
    here = HookEvent(
        name, conversation=conversation_id(payload.get("session_id")), transcript=_path(payload) or None
    )

    def observe(activity: Activity, reason: str, *, opens: bool = False, final: bool = False) -> Observation:
        why = f"{folded(reason, _REASON_MAX)} ({name})"
        return Observation(Source.HOOK, activity, at, why, turn, opens=opens, final=final, who=sub)

    match name:
        case "SessionStart":
            return _session_start(payload, observe, here, expects_turn=expects_turn)
        case "SessionEnd":
            reason = _word(payload, "reason") or "unknown"
            return HookEvent(name, ending=None if reason == "clear" else reason)
        case "UserPromptSubmit":
            prompt = _text(payload, "prompt")
            asked = not prompt.startswith("<task-notification>")
            whole = len(prompt) < _PROMPT_CUT_AT
            accepted = AcceptedInput(prompt, at, hook=name) if asked and whole and not sub else None
            return replace(
                here, observation=observe(Activity.BUSY, "a turn begins", opens=asked), accepted=accepted
            )
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PermissionDenied":
            tool = tool_of(_text(payload, "tool_name"), payload.get("tool_input"))
            begins, use = name == "PreToolUse", _word(payload, "tool_use_id") or None
            return replace(
                HookEvent(name) if sub else here,
                observation=replace(observe(Activity.BUSY, tool), use=use),
                activity=tool if begins else None,
                tool_started=use if begins else None,
                tool_digest=_digest(payload) if begins else "",
                tool_ended=use if name.startswith("Post") else None,  # who denied it the transcript says
            )
        case "PermissionRequest":
            blocked = observe(Activity.BLOCKED, _asked(payload))
            return replace(
                HookEvent(name) if sub else here, observation=blocked, tool_digest=_digest(payload)
            )
        case "Notification":
            return HookEvent(name, _notified(payload, observe))
        case "Stop" if not sub:
            return replace(here, observation=_stopped(payload, observe), turn_finished=True)
        case "StopFailure" if not sub:
            why = ": ".join(filter(None, (_word(payload, "error"), _text(payload, "last_assistant_message"))))
            return replace(here, observation=observe(Activity.IDLE, f"its turn failed: {why}", final=True))
        case "SubagentStart":
            kind = folded(_text(payload, "agent_type") or "unnamed", 60)
            return HookEvent(name, observe(Activity.BUSY, f"a sub-agent starts: {kind}"))
        case "PreCompact":
            return replace(here, observation=observe(Activity.BUSY, "it compacts its conversation"))
        case "PostCompact" if _text(payload, "trigger") == "manual":
            return replace(
                here, observation=observe(Activity.IDLE, "its conversation is compacted", final=True)
            )
        case _:
            return HookEvent(name)


def _session_start(
    payload: Mapping[str, Any], observe: _Observe, here: HookEvent, *, expects_turn: bool
) -> HookEvent:
    model = _word(payload, "model") or None
    match _text(payload, "source"):
        case "compact":
            return HookEvent(here.name, model=model)
        case "clear":
            cleared = observe(Activity.IDLE, "its conversation was cleared", final=True)
            return replace(here, observation=cleared, model=model, started=True)
        case "startup" if expects_turn:
            first = replace(observe(Activity.BUSY, "it starts with its prompt"), patience_s=FIRST_TURN_S)
            return HookEvent(here.name, first, model=model, ready=True, started=True)
        case _:  # of a resumed or forked one it names the conversation that it came from
            waits = observe(Activity.IDLE, "it waits for its first input", final=True)
            return HookEvent(here.name, waits, model=model, ready=True, started=True)


def _digest(payload: Mapping[str, Any]) -> str:
    return digest(_word(payload, "tool_name"), payload.get("tool_input"))


def _asked(payload: Mapping[str, Any]) -> str:
    tool, arguments = _text(payload, "tool_name"), payload.get("tool_input")
    if tool == "AskUserQuestion":
        return f"it asks: {folded(_first_question(arguments), 200)}"
    if tool == PLANS:
        return "it asks to approve its plan"
    return f"it asks for permission: {tool_of(tool, arguments)}"


def _first_question(arguments: object) -> str:
    questions = arguments.get("questions") if isinstance(arguments, Mapping) else None
    first = questions[0] if isinstance(questions, Sequence) and questions else None
    return _text(first, "question") if isinstance(first, Mapping) else ""


def _notified(payload: Mapping[str, Any], observe: _Observe) -> Observation | None:
    match _text(payload, "notification_type"):
        case "idle_prompt":
            return observe(Activity.IDLE, "it waits for input", final=True)
        case "elicitation_dialog":
            return observe(Activity.BLOCKED, folded(_text(payload, "message"), 200))
        case _:  # a permission: its own event came before and says more
            return None


def _stopped(payload: Mapping[str, Any], observe: _Observe) -> Observation:
    tasks = payload.get("background_tasks")
    running = [
        task
        for task in (tasks if isinstance(tasks, Sequence) else ())
        if isinstance(task, Mapping) and task.get("status") == "running"
    ]
    agents = sum(task.get("type") == "subagent" for task in running)
    if agents:
        return observe(Activity.BUSY, f"its turn ended, sub-agents in the background: {agents}")
    shells = len(running)
    left = f", shells in the background: {shells}" if shells else ""
    return observe(Activity.IDLE, f"its turn ended{left}", final=True)


def conversation_id(value: object) -> str | None:
    """The id of a conversation, which goes into a command line later: a UUID or nothing."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _path(payload: Mapping[str, Any]) -> str:
    path = _text(payload, "transcript_path")
    return path if path.startswith("/") and path.isprintable() and len(path) <= _PATH_MAX else ""


def _word(payload: Mapping[str, Any], key: str) -> str:
    """A short text that claude itself chose; of anything else the beginning, harmless to show."""
    return folded(_text(payload, key), _WORD_MAX)


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""
