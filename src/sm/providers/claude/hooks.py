"""Reads the hook events of Claude Code (measured on 2.1.197; code.claude.com, Hooks reference). Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from sm.core.faults import fault_reason
from sm.core.observation import Activity, Observation, Source
from sm.core.task_text import task_of
from sm.core.text import folded
from sm.core.turns import cut_message
from sm.core.usage import ToolUse
from sm.providers import values
from sm.providers.claude.actions import tool_line
from sm.providers.claude.background import background_work, is_entered
from sm.providers.claude.commands import COMPACT
from sm.providers.claude.decisions import PLANS, answers_in, decision, plan_of, read_dialog
from sm.providers.claude.dialect import current
from sm.providers.claude.faults import read_fault
from sm.providers.claude.pasted_text import without_paste_tags
from sm.providers.claude.permissions import shown_mode
from sm.providers.readers import FIRST_TURN_S, AcceptedInput, HookEvent

EVENTS = (
    "SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PermissionDenied",
    "PostToolUse", "PostToolUseFailure", "Notification", "Stop", "StopFailure", "SubagentStart", "SubagentStop",
    "PreCompact", "PostCompact",
)  # fmt: skip
"""The events that sm uses. Each one starts a process, so the list is short."""

_REASON_MAX = 300
_PROMPT_CUT_AT = 60_000
"""`sm hook` truncates prompts at this length. The transcript has longer prompts whole."""
_PEER_TAG_MAX = 1_100
_MODE = re.compile(r"[A-Za-z]{1,40}", re.ASCII)
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


_Observe: TypeAlias = Callable[..., Observation]


def tool_of(name: str, arguments: object) -> str:
    """A tool use in one line: `Bash: npm test`, `Write → tests/api.test.ts`."""
    given = values.shorten_arguments(values.mapping(arguments))
    return tool_line(ToolUse("", folded(name, 80), "", given))


def read_hook(payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
    """Interpret one event. `at`: time of the event, in seconds since the epoch.

    Never raises, because an agent can forge the payload.
    """
    payload = current().renamed("hook", payload)
    event, mode = _read(payload, at, expects_turn=expects_turn), values.word(payload.get("permission_mode"))
    is_own = _MODE.fullmatch(mode) and not values.word(payload.get("agent_id"))
    return replace(event, permission_mode=shown_mode(mode)) if is_own else event


def _read(payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
    name = values.word(payload.get("hook_event_name"))
    turn = values.word(payload.get("prompt_id")) or None
    sub = values.word(payload.get("agent_id"))
    path = values.absolute(payload.get("transcript_path"))
    conversation = conversation_id(payload.get("session_id"))
    here = HookEvent(
        name, conversation=conversation, transcript=path if path.isprintable() and path else None
    )

    def observe(activity: Activity, reason: str, *, opens: bool = False, final: bool = False) -> Observation:
        why = f"{folded(reason, _REASON_MAX)} ({name})"
        return Observation(Source.HOOK, activity, at, why, turn, opens=opens, final=final, who=sub)

    match name:
        case "SessionStart":
            return _session_start(payload, observe, here, expects_turn=expects_turn)
        case "SessionEnd":
            reason = values.word(payload.get("reason")) or "unknown"
            return HookEvent(name, ending=None if reason == "clear" else reason)
        case "UserPromptSubmit":
            return _prompt(payload, observe, here, in_sub_agent=bool(sub))
        case "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PermissionDenied":
            return _tool(payload, observe, HookEvent(name) if sub else here, in_sub_agent=bool(sub))
        case "PermissionRequest":
            blocked = observe(Activity.BLOCKED, _permission_reason(payload))
            return replace(
                HookEvent(name) if sub else here, observation=blocked, tool_digest=_digest(payload)
            )
        case "Notification":
            return HookEvent(name, _notified(payload, observe))
        case "Stop" if not sub:
            left = background_work(payload).agents
            return replace(here, observation=_stopped(payload, observe), turn_finished=True, sub_agents=left)
        case "StopFailure" if not sub:
            fault = read_fault(payload.get("error"), payload.get("last_assistant_message"), at)
            failed = replace(observe(Activity.IDLE, fault_reason(fault, at), final=True), answer="")
            return replace(here, observation=replace(failed, fault=fault))
        case "SubagentStart":
            kind = folded(values.string(payload.get("agent_type")) or "unnamed", 60)
            return HookEvent(name, observe(Activity.BUSY, f"a sub-agent started: {kind}"))
        case "SubagentStop":
            return HookEvent(name, sub_agent_ended=sub)
        case "PreCompact":
            compacting = observe(Activity.BUSY, "claude is compacting the conversation")
            return replace(here, observation=compacting, accepted=_compact_command(payload, at))
        case "PostCompact" if values.string(payload.get("trigger")) == "manual":
            return replace(
                here, observation=observe(Activity.IDLE, "the conversation was compacted", final=True)
            )
        case _:
            return HookEvent(name)


def _prompt(
    payload: Mapping[str, Any], observe: _Observe, here: HookEvent, *, in_sub_agent: bool
) -> HookEvent:
    given = values.string(payload.get("prompt"))
    prompt, pasted = without_paste_tags(given)
    is_input = is_entered(payload)
    busy = observe(Activity.BUSY, "a turn began", opens=is_input)
    takes = is_input and len(given) < _PROMPT_CUT_AT and not in_sub_agent
    return replace(
        here,
        observation=busy,
        accepted=AcceptedInput(prompt, busy.at, hook=here.name, pasted=pasted) if takes else None,
        task=task_of(prompt) if is_input and not in_sub_agent else None,
        peer=None if in_sub_agent else _peer(prompt),
    )


def _tool(payload: Mapping[str, Any], observe: _Observe, here: HookEvent, *, in_sub_agent: bool) -> HookEvent:
    name = here.name
    tool = tool_of(values.string(payload.get("tool_name")), payload.get("tool_input"))
    begins, use = name == "PreToolUse", values.word(payload.get("tool_use_id")) or None
    return replace(
        here,
        observation=replace(observe(Activity.BUSY, tool), use=use),
        activity=tool if begins else None,
        tool_started=use if begins else None,
        tool_digest=_digest(payload) if begins else "",
        tool_ended=use if name.startswith("Post") else None,  # the transcript shows who denied the use
        answers=answers_in(payload.get("tool_input")) if name == "PostToolUse" else (),
        tool_failed=None if begins or in_sub_agent else name != "PostToolUse",
        denial=_denial(tool, payload) if name == "PermissionDenied" else "",
    )


def _session_start(
    payload: Mapping[str, Any], observe: _Observe, here: HookEvent, *, expects_turn: bool
) -> HookEvent:
    model = values.word(payload.get("model")) or None
    match values.string(payload.get("source")):
        case "compact":
            return HookEvent(here.name, model=model)
        case "clear":
            cleared = replace(
                observe(Activity.IDLE, "the conversation was cleared", final=True), cleared=True
            )
            return replace(here, observation=cleared, model=model, started=True)
        case "startup" if expects_turn:
            first = replace(observe(Activity.BUSY, "claude started with a prompt"), patience_s=FIRST_TURN_S)
            return HookEvent(here.name, first, model=model, ready=True, started=True)
        # After a resume, and after a fork, which 2.1.197 calls a resume, the event names the original conversation.
        case source:
            resumed = "has resumed its conversation and waits for input"
            waits_for = resumed if source in ("resume", "fork") else "waits for its first input"
            waits = observe(Activity.IDLE, f"claude {waits_for}", final=True)
            return HookEvent(here.name, waits, model=model, ready=True, started=True)


def _compact_command(payload: Mapping[str, Any], at: float) -> AcceptedInput | None:
    """The command that began a compaction, or None if claude compacts by itself."""
    if values.string(payload.get("trigger")) != "manual":
        return None
    text = f"{COMPACT.text} {values.string(payload.get('custom_instructions'))}".strip()
    return AcceptedInput(text, at, hook="PreCompact", command=True)


def _peer(prompt: str) -> str | None:
    """Return the name of another claude that sent this prompt (measured with 2.1.332), or None."""
    words = current()
    message = words.phrases("peer.message").fit(prompt[:_PEER_TAG_MAX].lstrip())
    if message is None:
        return None
    name = words.phrases("peer.name").fit(message.get("attributes", ""))
    return "" if name is None else name.get("name", "")


def _denial(tool: str, payload: Mapping[str, Any]) -> str:
    """claude's own words, such as those of a model that could not evaluate the action."""
    reason = folded(values.string(payload.get("reason")), _REASON_MAX)
    return f"{folded(tool, 100)}: {reason or 'no reason was given'}"


def _digest(payload: Mapping[str, Any]) -> str:
    return values.digest(values.word(payload.get("tool_name")), payload.get("tool_input"))


def _permission_reason(payload: Mapping[str, Any]) -> str:
    tool, arguments = values.string(payload.get("tool_name")), payload.get("tool_input")
    if tool == "AskUserQuestion":
        return f"claude asks: {folded(_first_question(arguments), 200)}"
    if tool == PLANS:
        return "claude asks for approval of its plan"
    return f"claude asks for permission: {tool_of(tool, arguments)}"


def _first_question(arguments: object) -> str:
    first = next(iter(values.blocks(values.mapping(arguments).get("questions"))), {})
    return values.string(first.get("question"))


def _notified(payload: Mapping[str, Any], observe: _Observe) -> Observation | None:
    match values.string(payload.get("notification_type")):
        case "idle_prompt":
            return observe(Activity.IDLE, "claude waits for input", final=True)
        case "elicitation_dialog":
            return observe(Activity.BLOCKED, folded(values.string(payload.get("message")), 200))
        case _:  # a permission: PermissionRequest came before, with more details
            return None


def _stopped(payload: Mapping[str, Any], observe: _Observe) -> Observation:
    left = background_work(payload)
    reason = f"the turn ended, {left.text}" if left.text else "the turn ended"
    if left.agents:
        return observe(Activity.BUSY, reason)
    message = values.string(payload.get("last_assistant_message"))
    ended = observe(Activity.IDLE, reason, final=True)
    return replace(ended, answer=cut_message(message), finished=True, background=left.others)


def conversation_id(value: object) -> str | None:
    """The id of a conversation if it is a UUID. Other texts could be options in a command line."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


class ClaudeHookReader:
    ending_event = "SessionEnd"
    event = staticmethod(read_hook)
    dialog = staticmethod(read_dialog)
    plan = staticmethod(plan_of)
    decision = staticmethod(decision)
