"""Reads what a person in `sm top` decides on when a session proposes its completion: its changes and draft comments."""

from sm.board import Target
from sm.board.actions import proposes_completion
from sm.board.tabs import TABS
from sm.cli.session_patch import proposed_changes
from sm.client.http import Client, session_path
from sm.core.lines import plural

CHANGES_KEY = str(1 + [tab.name for tab in TABS].index("changes"))
"""The key that shows the changes, on the page of the request and on that of the session."""
COUNTING = "counting"
"""In place of the numbers until they are known."""


def has_changes(target: Target) -> bool:
    """True for a proposed completion of a session whose page can show the changes."""
    return proposes_completion(target) and target.row is not None


def changes_of(client: Client, target: Target) -> str | None:
    """The numbers of the changes, in words; None if git cannot tell. Runs git."""
    return None if target.request is None else proposed_changes(client, target.request)


def drafts_of(client: Client, target: Target) -> tuple[int, ...]:
    """The ids of the person's draft comments about the changes. Raises SmError."""
    if not proposes_completion(target) or target.session_id is None:
        return ()
    review = client.get(session_path(target.session_id, "/review"))
    return tuple(draft["id"] for draft in review["comments"])


def drafts_question(target: Target, count: int) -> str:
    assert target.need is not None
    comments = plural(count, "draft comment")
    return f"Deny {target.need.key} with your {comments}, as one round? y: yes, n: without, Esc: not now"
