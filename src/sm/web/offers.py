"""The actions that a page offers, with their commands, their fields and the reasons why one is not possible. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from sm.board import ACTIONS, BoardAction, BoardRow, InputField, Target
from sm.board.board_action import audience
from sm.web.logins import scope_of

DECISIONS = ("approve", "deny", "answer", "always")
"""Actions on a request instead of a session."""
Offer = Mapping[str, Any]


def action_fields(action: BoardAction) -> Offer:
    """Fields of an action that are the same for every login and every target."""
    return {
        "name": action.name,
        "key": action.key,
        "title": action.title,
        "scope": scope_of(action.name).value,
        "undo": action.undo,
        "needs_session": action.needs_session,
        "on_server": action.call is not None,
        "fields": [_field(field) for field in action.fields],
    }


def _field(field: InputField) -> Offer:
    return {
        "name": field.name,
        "title": field.title,
        "kind": field.kind.value,
        "required": field.required,
        "hint": field.hint,
    }


def session_offers(target: Target) -> dict[str, Offer]:
    """The actions on a session."""
    return {action.name: _offer(action, target) for action in ACTIONS.values() if action.needs_session}


def board_offers(rows: Mapping[str, BoardRow], workspaces: Iterable[str]) -> dict[str, Mapping[str, Offer]]:
    """The actions that need no session, by workspace, or empty if no workspace is chosen."""
    found = [action for action in ACTIONS.values() if not action.needs_session]
    return {
        slug: {action.name: _offer(action, board_target(rows, slug or None)) for action in found}
        for slug in ("", *workspaces)
    }


def board_target(rows: Mapping[str, BoardRow], workspace: str | None) -> Target:
    return Target(workspace=workspace, audience=audience(rows, workspace))


def refusal(action: BoardAction, target: Target) -> str | None:
    """The reason why the action is not possible in a browser, or None if it is possible."""
    row = target.row
    if action.name == "rm" and row is not None and row.data["worktree"] is not None:
        # Only the command line can tell whether the worktree has work that exists nowhere else.
        return f"it has a worktree, which only the command removes: {action.command_line(target)}"
    return action.refusal(target)


def _offer(action: BoardAction, target: Target) -> Offer:
    return {
        "refusal": refusal(action, target),
        "command": None if action.name in DECISIONS else action.command_line(target),
        "question": action.question(target) if action.question is not None else None,
        "defaults": {field.name: field.default(target) for field in action.fields},
    }
