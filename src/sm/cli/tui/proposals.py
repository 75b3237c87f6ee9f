"""Shows in `sm top` what a session that proposes its completion has changed, and sends draft comments with a denial."""

import asyncio
import time
from collections.abc import Callable, Sequence

from sm.board import Target
from sm.board.actions import proposes_completion
from sm.board.details import target_lines
from sm.board.guard import DEAD_S
from sm.board.tabs import TABS
from sm.cli.session_patch import proposed_changes
from sm.cli.tui.board_app import BoardApp
from sm.cli.tui.screens import KeyQuestion
from sm.client.http import Client, session_path
from sm.core.lines import plural
from sm.errors import SmError

CHANGES_KEY = str(1 + [tab.name for tab in TABS].index("changes"))
"""The key that shows the changes, on the page of the request and on that of the session."""
COUNTING = "counting"
"""In place of the numbers until they are known."""


def has_changes(target: Target) -> bool:
    """True for a proposed completion of a session whose page can show the changes."""
    return proposes_completion(target) and target.row is not None


async def counted_lines(
    client: Client, target: Target, now_s: Callable[[], float], width: int, keys: str
) -> Sequence[str]:
    """The lines of the request's page with the numbers of the changes. Runs git in a thread."""
    assert target.request is not None
    changes = await asyncio.to_thread(proposed_changes, client, target.request)
    return [*target_lines(target, now_s(), width, changes), "", keys]


async def choose_drafts(
    app: BoardApp, client: Client, target: Target, chosen: Callable[[tuple[int, ...] | None], object]
) -> None:
    """Ask whether the person's draft comments go with a denial, and call `chosen` with the ids of those that do.

    None if the person denies nothing now, or if the drafts cannot be read.
    """
    try:
        drafts = await asyncio.to_thread(_drafts_of, client, target)
    except SmError as error:
        app.tell(f"failed: {error.message}")
        chosen(None)
        return
    if not drafts:
        chosen(())
        return
    assert target.need is not None
    comments = plural(len(drafts), "draft comment")
    question = f"Deny {target.need.key} with your {comments}, as one round? y: yes, n: without, Esc: not now"

    def answered(key: str | None) -> None:
        chosen(None if key is None else drafts if key == "y" else ())

    # It comes a moment after the key that denies: the next key may be meant for the list.
    until_s = time.monotonic() + DEAD_S
    about, is_dead = target.need.key, lambda: time.monotonic() < until_s
    app.ask(KeyQuestion(question, "yn", about, is_dead=is_dead), answered)


def _drafts_of(client: Client, target: Target) -> tuple[int, ...]:
    """The ids of the person's draft comments about the changes. Raises SmError."""
    assert target.session_id is not None
    review = client.get(session_path(target.session_id, "/review"))
    return tuple(draft["id"] for draft in review["comments"])
