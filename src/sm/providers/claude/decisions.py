"""The dialogs of Claude Code that its PermissionRequest hook may answer: what they ask, and how it is answered. Pure.

Measured on 2.1.197 (code.claude.com, Hooks reference, PermissionRequest).
"""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from sm.core.requests import Answer, Question, Request
from sm.core.states import RequestKind
from sm.core.text import marked
from sm.providers.claude import values
from sm.providers.readers import Dialog

_ASKS = "AskUserQuestion"
PLANS = "ExitPlanMode"
"""The tool with which an agent that plans asks whether it may begin."""


def read_dialog(payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
    """What the hook event says of a dialog that opens with it. Nothing here raises, as in `read_hook`.

    A question whose texts are not all there is a permission, so that a person still sees what it is about.
    """
    tool = values.word(payload.get("tool_name"))
    if payload.get("hook_event_name") != "PermissionRequest" or not tool:
        return None
    given = payload.get("tool_input")
    arguments = values.mapping(given)
    questions = _questions(arguments) if tool == _ASKS else ()
    return Dialog(
        RequestKind.QUESTION if questions else RequestKind.PERMISSION,
        tool,
        arguments,
        questions,
        agent=values.word(payload.get("agent_id")),
        cut=cut,
        working_dir=values.absolute(payload.get("cwd")),
        tool_digest=values.digest(tool, given),
    )


def plan_of(tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The plan that this use of a tool asks to begin; None: the tool is another one."""
    if tool != PLANS:
        return None
    plan = arguments.get("plan")
    return plan if _is_text(plan) else "its text is on the screen only"


def decision(request: Request, by: str) -> str | None:
    """What the hook prints, in ASCII, so that claude's dialog closes with the answer of `request`.

    None: there is no answer, or it is one to a question whose arguments are not whole, or whose answers claude could
    not tell apart; a yes alone answers no question. No line of what somebody has said passes for one of the daemon's.
    """
    answer = request.answer
    if answer is None:
        return None
    decided: Mapping[str, object]
    match request.kind:
        case RequestKind.PERMISSION | RequestKind.QUESTION if not answer.approved:
            said = f"{by} said no"
            decided = {
                "behavior": "deny",
                "message": marked(f"{said}: {answer.message}") if answer.message else said,
            }
        case RequestKind.PERMISSION if request.tool != _ASKS:
            decided = {"behavior": "allow"}
        case RequestKind.QUESTION if not request.cut and (arguments := _answered(request, answer)):
            decided = {"behavior": "allow", "updatedInput": arguments}
        case _:
            return None
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decided}})


def _answered(request: Request, answer: Answer) -> Mapping[str, object] | None:
    """The arguments as claude's own dialog completes them: answers are found by the text of their question."""
    arguments = request.arguments or {}
    asked = _questions(arguments)
    texts = {question.question for question in asked}
    if not asked or not len(texts) == len(asked) == len(answer.answers):
        return None
    said = {
        each.question: words if words in each.options else marked(words)
        for each, words in zip(asked, answer.answers, strict=True)
    }
    return {**arguments, "answers": said}


def _questions(arguments: Mapping[str, Any]) -> tuple[Question, ...]:
    """Empty when one of them is not as claude writes them."""
    listed = arguments.get("questions")
    found = [_question(each) for each in listed] if isinstance(listed, list) else []
    whole = tuple(question for question in found if question is not None)
    return whole if len(whole) == len(found) else ()


def _question(value: object) -> Question | None:
    if not isinstance(value, Mapping):
        return None
    words, options = value.get("question"), value.get("options")
    if not _is_text(words) or not isinstance(options, list):
        return None
    labels = [each.get("label") if isinstance(each, Mapping) else None for each in options]
    texts = tuple(label for label in labels if _is_text(label))
    return Question(words, texts, value.get("multiSelect") is True) if len(texts) == len(labels) else None


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())
