"""The JSON of board frames: rows, entries that need a person, chips and the layout. Pure.

Every word comes from `sm.board`, so a browser shows the same words as `sm top`.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from sm.board import ACTIONS, BoardNeed, BoardRow, Line, NeedKind, Sort, Target, chips
from sm.board.actions import proposes_completion
from sm.board.details import target_lines
from sm.board.main_actions import main_actions
from sm.board.prediction import MODES, predicted
from sm.board.short_names import short_name
from sm.board.words import context_bar, shown, sign_of, status_word
from sm.core.figures import dollars
from sm.core.request_lines import request_body
from sm.core.timestamps import epoch_s
from sm.web.logins import WebScope
from sm.web.offers import DECISIONS, action_fields, session_offers

Fields = Mapping[str, Any]
_DETAIL_WIDTH = 10_000
"""The page wraps the lines."""

_ACTIONS: Mapping[NeedKind, Sequence[str]] = {
    NeedKind.FAILURE: ("restore", "archive", "seen"),
    NeedKind.DONE: ("seen", "archive"),
}
"""The buttons of an entry about an ended session."""


def row_fields(row: BoardRow, labels: Container[str] = ()) -> Fields:
    """`labels`: of all sessions."""
    data, tree, worktree = row.data, row.data["tree"], row.data["worktree"]
    return {
        "label": row.label,
        "short": short_name(row, labels),
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
        "requests": list(row.requests),
    }


def need_fields(need: BoardNeed, row: BoardRow | None) -> Fields:
    request = need.request
    fields: dict[str, Any] = {
        "kind": need.kind.value,
        "key": need.key,
        "session_id": need.session_id,
        "label": need.label,
        "text": need.text,
        "since": need.since_s or None,
        "digest": need.digest,
        "workspace": None if row is None else row.workspace,
        "expires": None,
        "has_changes": False,
        "lines": [],
        "options": [],
        "questions": [],
        "actions": {},
        "commands": {},
    }
    target = Target(row, need)
    names = ("read",) if need.message_id is not None else _ACTIONS.get(need.kind, ())
    if names:
        fields["actions"] = {name: ACTIONS[name].refusal(target) for name in names}
    if need.kind is NeedKind.REQUEST and request is not None:
        fields |= {
            "expires": epoch_s(request["expires_at"]) if request["expires_at"] else None,
            "has_changes": proposes_completion(target),
            "lines": request_body(request, commands=False),
            "options": [shown(option) for option in request["options"]],
            "questions": [
                {
                    "question": shown(question["question"], 4000),
                    "options": [shown(option) for option in question["options"]],
                    "multiple": bool(question.get("multiple")),
                }
                for question in request["questions"]
            ],
            "actions": {name: ACTIONS[name].refusal(target) for name in DECISIONS},
            "commands": {name: ACTIONS[name].command_line(target) for name in DECISIONS},
        }
    return fields


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
    }
