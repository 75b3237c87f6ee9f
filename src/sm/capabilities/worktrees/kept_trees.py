"""Deletes what `sm review` has kept of a session in its repository when the session is removed."""

import asyncio
import logging

from sm.capabilities.worktrees.git.review_refs import may_have_trees
from sm.capabilities.worktrees.maker import TreeMaker
from sm.capabilities.worktrees.rules import repository_of
from sm.capabilities.worktrees.tables import PART, TreeRow
from sm.core.effects import EffectKind
from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.errors import SmError
from sm.store import Effect, Transaction
from sm.store.transaction import SessionFollower

log = logging.getLogger(__name__)


class KeptTrees(SessionFollower):
    """Follows removals of sessions by every door: `sm rm`, the page, a chat, a tool of an agent."""

    def __init__(self, maker: TreeMaker) -> None:
        self._maker = maker

    async def leave(self, tx: Transaction, session: Session) -> None:
        row = None if session.worktree is None else tx.part(PART).find(session.worktree)
        if session.effective_mode is not TrustLevel.DIRECT or (row is not None and row.plan.is_copy):
            return  # nothing is reviewed on this host, or the repository is deleted with the copy
        payload = {"directory": _place_of(session, row)}
        await tx.effect(EffectKind.FORGET_REVIEWS, session.id, payload, tx.now)

    async def forget(self, effect: Effect) -> None:
        """Delete the refs of the session.

        Leaves them where git cannot run, or a sandboxed session could have written: they keep nothing but old files.
        """
        directory = str(effect.payload["directory"])
        if not await asyncio.to_thread(may_have_trees, directory, effect.session_id):
            return
        try:
            await self._maker.forget_reviews(directory, effect.session_id)
        except SmError as error:
            extra = {"sm_session": effect.session_id}
            log.warning("kept what was reviewed of a removed session: %s", error.message, extra=extra)


def _place_of(session: Session, row: TreeRow | None) -> str:
    """A directory of the repository that stays when the worktree of the session is removed."""
    if row is not None and row.git_directory is not None:
        return row.git_directory
    repository = repository_of(session.worktree or "", session.branch or "")
    return repository or session.working_dir
