"""The JSON of board frames: rows, entries that need a person, chips and the layout. Pure.

Every word comes from `sm.board`, so a browser shows the same words as `sm top`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sm.board import ACTIONS, BoardNeed, BoardRow, Line, Sort, Target, chips, command_to_copy
from sm.board.actions import proposes_completion, rule_question
from sm.board.details import target_lines
from sm.board.equal_requests import EqualRequests, equal_requests
from sm.board.first_steps import FIRST_STEPS
from sm.board.main_actions import main_actions
from sm.board.need_actions import need_actions
from sm.board.prediction import MODES, predicted
from sm.board.words import context_bar, request_kind, says_all, shown, sign_of, status_word
from sm.core.figures import dollars
from sm.core.quotation import option_description
from sm.core.request_lines import request_body
from sm.core.timestamps import epoch_s
from sm.web.logins import WebScope
from sm.web.offers import DECISIONS, action_fields, refusal, session_offers

Fields = Mapping[str, Any]
_DETAIL_WIDTH = 10_000
"""The page wraps the lines."""


def row_fields(row: BoardRow) -> Fields:
    data, tree, worktree = row.data, row.data["tree"], row.data["worktree"]
    return {
        "label": row.label,
        "branch": shown(worktree["branch"] or "", 100) if worktree else "",
        "name": shown(data["friendly_name"] or data["name"]),
        "title": shown(data["title"] or ""),
        "status": row.status,
        "sign": sign_of(row.status, stale=row.stale, waits=bool(row.requests)),
        "word": status_word(row.status, stale=row.stale),
        "since": row.status_at_s,
        "task": row.task(),
        "progress": row.progress(),
        "tokens": row.tokens(),
        "cost": dollars(data["cost_usd"]),
        "tree_cost": row.tree_cost(),
        "tree_sessions": tree["sessions"],
        "context": context_bar(data["context_percent"]),
        "context_percent": data["context_percent"],
        "model": row.model(),
        "type": shown(row.agent_type, 60),
        "badges": row.badges(),
        "urgency": row.urgency,
        "stale": row.stale,
        "live": row.is_live,
        "over": row.is_over,
        "process": row.has_process,
        "workspace": row.workspace,
        "parent": row.parent_id,
        "archived": data["archived"],
        "held": data["messages_held"],
        "takes_files": data["takes_files"],
        "requests": list(row.requests),
    }


def needs_fields(found: Sequence[BoardNeed], rows: Mapping[str, BoardRow]) -> list[Fields]:
    groups = equal_requests(found, rows)
    return [need_fields(need, rows.get(need.session_id or ""), groups.get(need.key)) for need in found]


def need_fields(need: BoardNeed, row: BoardRow | None, equal: EqualRequests | None = None) -> Fields:
    """An entry that needs a person. `equal`: what asks for the same, or None if it must be answered alone."""
    request, target = need.request, Target(row, need)
    offered = need_actions(target, refusal)
    names = dict.fromkeys((*offered.buttons, *offered.menu, *(DECISIONS if request is not None else ())))
    fields: dict[str, Any] = {
        "kind": need.kind.value,
        "word": "" if request is None else request_kind(request),
        "key": need.key,
        "session_id": need.session_id,
        "label": need.label,
        "text": need.text,
        "since": need.since_s or None,
        "digest": need.digest,
        "always": _always_offer(target),
        "workspace": None if row is None else row.workspace,
        "expires": None,
        "has_changes": False,
        "says_all": request is None or says_all(request),
        "lines": [],
        "questions": [],
        "buttons": offered.buttons,
        "menu": offered.menu,
        "actions": {name: refusal(ACTIONS[name], target) for name in names},
        "commands": {name: ACTIONS[name].command_line(target) for name in names},
        "copy": command_to_copy(target),
        "equal": None if equal is None else {"keys": equal.keys, "words": equal.words},
    }
    if request is not None:
        is_question = request["kind"] == "question"
        fields |= {
            "expires": epoch_s(request["expires_at"]) if request["expires_at"] else None,
            "has_changes": proposes_completion(target),
            # A question stands once: above the field for its answer.
            "lines": request_body({**request, "questions": []} if is_question else request, commands=False),
            "questions": [_question_fields(request, number) for number in range(len(request["questions"]))],
        }
    return fields


def _question_fields(request: Fields, number: int) -> Fields:
    question = request["questions"][number]
    return {
        "question": shown(question["question"], 4000),
        "options": [
            {"label": shown(label), "words": shown(option_description(request["arguments"], number, place))}
            for place, label in enumerate(question["options"])
        ],
        "multiple": bool(question.get("multiple")),
    }


def _always_offer(target: Target) -> Fields | None:
    """The question before the rule for a request is written, or None if there is no rule."""
    question = rule_question(target)
    if not question or target.request is None:
        return None
    command = ACTIONS["always"].command_line(target)
    return {"question": question, "line": target.request["always"], "command": command, "defaults": {}}


def detail_fields(row: BoardRow, found: Sequence[BoardNeed], now_s: float) -> Fields:
    """The selected session in full, and each action with its `sm` command and the reason why it is not possible."""
    target = Target(row)
    main = main_actions(target, found)
    return {
        "request": main.request,
        "main": main.names,
        "lines": target_lines(target, now_s, _DETAIL_WIDTH),
        "predictions": {mode: predicted(target, found, mode) for mode in MODES},
        "actions": session_offers(target),
    }


def layout(lines: Iterable[Line]) -> list[list[Any]]:
    return [[line.row.id, line.branch, line.folded, line.depth, line.children] for line in lines]


def chip_fields(
    rows: Mapping[str, BoardRow], found: Sequence[BoardNeed], workspaces: Iterable[str]
) -> list[Fields]:
    """`All`, then each workspace by name, with what needs a person in it."""
    # A chip that is not chosen counts its own entries: with nothing else chosen each count is complete.
    listed = chips(rows, found, workspaces, "")
    return [
        {
            "slug": chip.slug or "",
            "title": chip.label,
            "key": chip.key,
            "count": chip.sessions,
            "needs": sum(need.is_urgent for need in found) if chip.slug is None else chip.needs,
        }
        for chip in listed
    ]


def hello_fields() -> Fields:
    """The actions and orders, which are the same for every login."""
    return {
        "actions": [action_fields(action) for action in ACTIONS.values()],
        "scopes": [scope.value for scope in WebScope],
        "sorts": [sort.value for sort in Sort],
        "first_steps": [[step.title, step.command, step.action] for step in FIRST_STEPS],
    }
