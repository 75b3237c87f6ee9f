"""What Claude Code's hook events mean (measured on 2.1.197; code.claude.com, Hooks reference). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sm.evidence import Activity, Observation, Source
from sm.providers.base import HookNews
from sm.providers.claude.transcript import shortened, tool_line
from sm.text import folded
from sm.usage import ToolUse

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

_FIRST_TURN_S = 30.0
"""How long after its start the turn for its prompt may begin, when many start at once. Until then it says idle."""


class _Said(Protocol):
    def __call__(
        self, activity: Activity, reason: str, *, opens: bool = False, final: bool = False
    ) -> Observation: ...


def tool_of(name: str, arguments: object) -> str:
    """A tool and what it is used on, in one line: `Bash: npm test`, `Write → tests/api.test.ts`."""
    given = shortened(arguments) if isinstance(arguments, Mapping) else {}
    return tool_line(ToolUse("", folded(name, 80), "", given))


def read_hook(payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookNews:
    """What one event means. `at`: seconds since the epoch when it was emitted.

    Nothing here may raise: the payload comes from a program that an agent can imitate.
    """
    name = _text(payload, "hook_event_name")
    turn = _text(payload, "prompt_id") or None
    sub = bool(payload.get("agent_id"))
    here = HookNews(
        name,
        conversation=_text(payload, "session_id") or None,
        transcript=_text(payload, "transcript_path") or None,
    )

    def said(activity: Activity, reason: str, *, opens: bool = False, final: bool = False) -> Observation:
        return Observation(Source.HOOK, activity, at, f"{reason} ({name})", turn, opens=opens, final=final)

    match name:
        case "SessionStart":
            return _session_start(payload, said, here, expects_turn=expects_turn)
        case "SessionEnd":
            reason = _text(payload, "reason") or "unknown"
            return HookNews(name, ending=None if reason == "clear" else reason)
        case "UserPromptSubmit":
            asked = not _text(payload, "prompt").startswith("<task-notification>")
            return replace(here, said=said(Activity.BUSY, "a turn begins", opens=asked))
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PermissionDenied":
            tool = tool_of(_text(payload, "tool_name"), payload.get("tool_input"))
            doing = tool if name == "PreToolUse" else None
            return replace(HookNews(name) if sub else here, said=said(Activity.BUSY, tool), activity=doing)
        case "PermissionRequest":
            return replace(HookNews(name) if sub else here, said=said(Activity.BLOCKED, _asked(payload)))
        case "Notification":
            return HookNews(name, _notified(payload, said))
        case "Stop" if not sub:
            return replace(here, said=_stopped(payload, said), final_words=_words(payload))
        case "StopFailure" if not sub:
            why = ": ".join(filter(None, (_text(payload, "error"), folded(_words(payload) or "", 200))))
            return replace(here, said=said(Activity.IDLE, f"its turn failed: {why}", final=True))
        case "SubagentStart":
            kind = folded(_text(payload, "agent_type") or "unnamed", 60)
            return HookNews(name, said(Activity.BUSY, f"a sub-agent starts: {kind}"))
        case "PreCompact":
            return replace(here, said=said(Activity.BUSY, "it compacts its conversation"))
        case "PostCompact" if _text(payload, "trigger") == "manual":
            return replace(here, said=said(Activity.IDLE, "its conversation is compacted", final=True))
        case _:
            return HookNews(name)


def _session_start(
    payload: Mapping[str, Any], said: _Said, here: HookNews, *, expects_turn: bool
) -> HookNews:
    model = _text(payload, "model") or None
    match _text(payload, "source"):
        case "compact":
            return HookNews(here.name, model=model)
        case "clear":
            cleared = said(Activity.IDLE, "its conversation was cleared", final=True)
            return replace(here, said=cleared, model=model, started=True)
        case _ if expects_turn:
            first = replace(said(Activity.BUSY, "it starts with its prompt"), patience_s=_FIRST_TURN_S)
            return HookNews(here.name, first, model=model, ready=True, started=True)
        case _:  # of a resumed or forked one it names the conversation that it came from
            waits = said(Activity.IDLE, "it waits for its first input", final=True)
            return HookNews(here.name, waits, model=model, ready=True, started=True)


def _asked(payload: Mapping[str, Any]) -> str:
    tool, arguments = _text(payload, "tool_name"), payload.get("tool_input")
    if tool == "AskUserQuestion":
        return f"it asks: {folded(_first_question(arguments), 200)}"
    if tool == "ExitPlanMode":
        return "it asks to approve its plan"
    return f"it asks for permission: {tool_of(tool, arguments)}"


def _first_question(arguments: object) -> str:
    questions = arguments.get("questions") if isinstance(arguments, Mapping) else None
    first = questions[0] if isinstance(questions, Sequence) and questions else None
    return str(first.get("question") or "") if isinstance(first, Mapping) else ""


def _notified(payload: Mapping[str, Any], said: _Said) -> Observation | None:
    match _text(payload, "notification_type"):
        case "idle_prompt":
            return said(Activity.IDLE, "it waits for input", final=True)
        case "elicitation_dialog":
            return said(Activity.BLOCKED, folded(_text(payload, "message"), 200))
        case _:  # a permission: its own event came before and says more
            return None


def _stopped(payload: Mapping[str, Any], said: _Said) -> Observation:
    tasks = payload.get("background_tasks")
    running = [
        task
        for task in (tasks if isinstance(tasks, Sequence) else ())
        if isinstance(task, Mapping) and task.get("status") == "running"
    ]
    agents = sum(task.get("type") == "subagent" for task in running)
    if agents:
        return said(Activity.BUSY, f"its turn ended, sub-agents in the background: {agents}")
    shells = len(running)
    left = f", shells in the background: {shells}" if shells else ""
    return said(Activity.IDLE, f"its turn ended{left}", final=True)


def _words(payload: Mapping[str, Any]) -> str | None:
    return _text(payload, "last_assistant_message") or None


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""
