"""Reads and answers the dialogs of Claude Code that report a PermissionRequest hook event. Pure.

Measured with 2.1.197 and 2.1.332 (code.claude.com, Hooks reference, PermissionRequest).
"""

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from sm.core.requests import Answer, Question, Request
from sm.core.states import RequestKind
from sm.core.text import escape_marks
from sm.providers import values
from sm.providers.claude.dialect import current
from sm.providers.readers import Dialog

_ASKS = "AskUserQuestion"
PLANS = "ExitPlanMode"
"""The tool with which an agent in plan mode requests approval."""


def read_dialog(payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
    """The dialog of a hook event. Never raises, like `read_hook`.

    A question with missing texts becomes a permission, so that a person still sees its subject.
    """
    payload = current().renamed("hook", payload)
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
    """The plan for which this tool use requests approval, or None for another tool."""
    if tool != PLANS:
        return None
    plan = arguments.get("plan")
    return plan if _is_text(plan) else "the text of the plan is only on the screen"


def decision(request: Request, by: str) -> str | None:
    """The output of the hook (ASCII) that closes claude's dialog with the answer of `request`.

    None without an answer, for a question with incomplete arguments or ambiguous answers, or for a plain yes to a
    question. Marks the lines of a person's text, so that none can pass for a line of the daemon.
    """
    answer = request.answer
    if answer is None:
        return None
    decided: Mapping[str, object]
    match request.kind:
        case RequestKind.PERMISSION | RequestKind.QUESTION if not answer.approved:
            refusal = f"{by} said no"
            decided = {
                "behavior": "deny",
                "message": escape_marks(f"{refusal}: {answer.message}") if answer.message else refusal,
            }
        case RequestKind.PERMISSION if request.tool == PLANS:
            decided = {"behavior": "allow", "updatedInput": _approved_plan(request)}
        case RequestKind.PERMISSION if request.tool != _ASKS:
            decided = {"behavior": "allow"}
        case RequestKind.QUESTION if not request.cut and (arguments := _answered_arguments(request, answer)):
            decided = {"behavior": "allow", "updatedInput": arguments}
        case _:
            return None
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decided}})


def _approved_plan(request: Request) -> Mapping[str, object]:
    """Return the tool's own arguments without the text of the plan, which claude then takes from its file.

    2.1.332 ignores an approval without arguments. With the text, 2.1.197 tells the model that the user edited the plan.
    Both measured.
    """
    arguments = request.arguments or {}
    kept = ("planFilePath",) if request.cut else tuple(name for name in arguments if name != "plan")
    return {name: arguments[name] for name in kept if name in arguments}


def answers_in(arguments: object) -> tuple[str, ...]:
    """The answers in the arguments of a question that has been answered, in the order of its parts."""
    given = values.mapping(arguments)
    answers = values.mapping(given.get("answers"))
    texts = [values.string(part.get("question")) for part in values.blocks(given.get("questions"))]
    return tuple(values.string(answers.get(text)) for text in texts) if answers else ()


def _answered_arguments(request: Request, answer: Answer) -> Mapping[str, object] | None:
    """The arguments with answers, as claude's own dialog completes them. The question text is the key of an answer."""
    arguments = request.arguments or {}
    questions = _questions(arguments)
    texts = {question.question for question in questions}
    if not questions or not len(texts) == len(questions) == len(answer.answers):
        return None
    answers = {
        question.question: words if words in question.options else escape_marks(words)
        for question, words in zip(questions, answer.answers, strict=True)
    }
    return {**arguments, "answers": answers}


def _questions(arguments: Mapping[str, Any]) -> tuple[Question, ...]:
    """Empty if a question has an unknown form."""
    listed = arguments.get("questions")
    questions = [_question(item) for item in listed] if isinstance(listed, list) else []
    valid = tuple(question for question in questions if question is not None)
    return valid if len(valid) == len(questions) else ()


def _question(value: object) -> Question | None:
    if not isinstance(value, Mapping):
        return None
    words, options = value.get("question"), value.get("options")
    if not _is_text(words) or not isinstance(options, list):
        return None
    labels = [option.get("label") if isinstance(option, Mapping) else None for option in options]
    texts = tuple(label for label in labels if _is_text(label))
    return Question(words, texts, value.get("multiSelect") is True) if len(texts) == len(labels) else None


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())
