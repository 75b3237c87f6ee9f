"""Reads the requests that an app-server makes of its clients: permissions, questions and elicitations. Pure.

Codex sends each request to all clients of a conversation, and takes the first answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sm.core.requests import Question
from sm.core.states import RequestKind
from sm.providers import values
from sm.providers.codex.frames import RpcCall
from sm.providers.codex.tool_items import UsedTool
from sm.providers.links import OfferedDecision
from sm.providers.readers import Dialog

_PARTS_MAX = 20
_DECISIONS = tuple(
    OfferedDecision(name, name) for name in ("accept", "acceptForSession", "decline", "cancel")
)
"""The decisions that both kinds of approval take if the request names none."""
_APPROVALS = frozenset({"item/commandExecution/requestApproval", "item/fileChange/requestApproval"})
_REFUSALS = frozenset({"decline", "cancel"})


def read_dialog(call: RpcCall, tool: UsedTool | None, agent: str) -> Dialog | None:
    """The dialog that a request opens, or None if the request is no dialog.

    `tool`: that of the item with the id of the request, if known. `agent`: the sub-agent that asks, or empty.
    """
    given = call.params
    match call.method:
        case "item/tool/requestUserInput":
            questions = _questions(given)
            kind = RequestKind.QUESTION if questions else RequestKind.PERMISSION
            return _dialog(
                kind, UsedTool("request_user_input", _members(given, "questions")), given, agent, questions
            )
        case "mcpServer/elicitation/request":
            name = f"mcp__{values.name(given.get('serverName'))}"
            text = values.cut(values.string(given.get("message")))
            questions = (Question(text),) if text else ()
            kind = RequestKind.QUESTION if questions else RequestKind.PERMISSION
            shown = _members(given, "message", "mode", "url", "requestedSchema")
            return _dialog(kind, UsedTool(name, shown), given, agent, questions)
        case "item/commandExecution/requestApproval":
            command = {"cmd": values.string(given.get("command"))}
            asked = UsedTool("exec_command", command) if command["cmd"] or tool is None else tool
        case "item/fileChange/requestApproval":
            asked = tool or UsedTool("apply_patch", {})
        case "item/permissions/requestApproval":
            asked = UsedTool("request_permissions", values.mapping(given.get("permissions")))
        case _:
            return None
    reason = values.string(given.get("reason"))
    arguments = {**asked.arguments, "reason": reason} if reason else asked.arguments
    return _dialog(RequestKind.PERMISSION, UsedTool(asked.name, arguments), given, agent)


def decisions_of(call: RpcCall) -> tuple[OfferedDecision, ...]:
    """The answers that the program offers for a permission, in its order, without those of an unknown form."""
    if call.method not in _APPROVALS:
        return ()
    offered = call.params.get("availableDecisions")
    if not isinstance(offered, list):
        return _DECISIONS
    found = [_decision(value) for value in offered[:_PARTS_MAX]]
    return tuple(decision for decision in found if decision is not None)


def answer_to(
    call: RpcCall, decision: OfferedDecision | None, answers: Sequence[str]
) -> Mapping[str, object] | None:
    """The answer to a request, or None if a link cannot give it: then a person must, in the agent's terminal."""
    if call.method in _APPROVALS and decision is not None:
        return {"decision": decision.value}
    parts = values.blocks(call.params.get("questions"))
    ids = [values.name(part.get("id")) for part in parts]
    if call.method == "item/tool/requestUserInput" and answers and len(answers) == len(ids) and all(ids):
        return {"answers": {id: {"answers": [answer]} for id, answer in zip(ids, answers, strict=True)}}
    return None


def refuses(answer: Mapping[str, Any]) -> bool | None:
    """Return whether an answer to a permission refuses it, or None if the answer has no decision."""
    decision = answer.get("decision")
    if isinstance(decision, str):
        return decision in _REFUSALS
    return False if isinstance(decision, dict) else None


def _decision(value: object) -> OfferedDecision | None:
    if isinstance(value, str):
        return OfferedDecision(values.cut(value, values.NAME_MAX), value)
    name = next(iter(values.mapping(value)), None)
    return None if name is None else OfferedDecision(values.cut(name, values.NAME_MAX), value)


def _members(given: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return {name: given[name] for name in names if name in given}


def _questions(given: Mapping[str, Any]) -> tuple[Question, ...]:
    """The questions of a dialog, or none if one of them has no text: then a person must look at the terminal."""
    parts = values.blocks(given.get("questions"))[:_PARTS_MAX]
    texts = [values.cut(values.string(part.get("question"))) for part in parts]
    if not all(texts):
        return ()
    return tuple(Question(text, _labels(part)) for text, part in zip(texts, parts, strict=True))


def _labels(part: Mapping[str, Any]) -> tuple[str, ...]:
    labels = [values.string(option.get("label")) for option in values.blocks(part.get("options"))]
    return tuple(values.cut(label) for label in labels[:_PARTS_MAX] if label)


def _dialog(
    kind: RequestKind,
    tool: UsedTool,
    given: Mapping[str, Any],
    agent: str,
    questions: tuple[Question, ...] = (),
) -> Dialog:
    directory = values.absolute(given.get("cwd"))
    return Dialog(kind, tool.name, tool.arguments, questions, agent, working_dir=directory)
