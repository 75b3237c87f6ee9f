"""Warns of what an ended agent left behind: changed files, and processes that run on."""

import logging
from collections.abc import Awaitable, Callable

from sm.core.effects import Effect
from sm.core.models import Session
from sm.core.states import EventType, TrustLevel
from sm.core.text import folded
from sm.core.wording import subject
from sm.sandboxes.base import Sandbox
from sm.sessions.leftovers import Leftovers, words_of_leftovers
from sm.store import Store

log = logging.getLogger(__name__)

_PATH_MAX = 200
_EVENTS_LOOKED_AT = 50


class EndInspection:
    """Carries out the effect that follows the end of each process, also after a crash of the daemon."""

    def __init__(self, store: Store, sandbox: Sandbox, leftovers: Leftovers) -> None:
        self._store = store
        self._sandbox = sandbox
        self._leftovers = leftovers

    async def inspect(self, effect: Effect) -> None:
        """Record a warning for each kind of thing that was left. A repetition records none again."""
        for name, look in (("files", self._changed_files), ("processes", self._processes)):
            await self._warn(effect, name, look)

    async def _warn(
        self, effect: Effect, name: str, look: Callable[[Session], Awaitable[str | None]]
    ) -> None:
        session = self._store.sessions.get(effect.session_id)
        if session is None:
            return
        try:
            words = await look(session)
        except Exception:
            log.exception("failed to look for %s", name, extra={"sm_session": effect.session_id})
            return
        if words is None:
            return
        mark = f"{effect.id} {name}"
        newest = await self._store.events(
            sessions=[effect.session_id], type=EventType.WARNING, limit=_EVENTS_LOOKED_AT
        )
        if any(event.metadata.get("inspection") == mark for event in newest):
            return
        async with self._store.transaction() as tx:
            if (now := tx.find(effect.session_id)) is not None:
                text = f"{subject(now)} - {words}"
                await tx.event(EventType.WARNING, now, tx.now, text, {"inspection": mark})

    async def _changed_files(self, session: Session) -> str | None:
        """Describe files that a sandboxed agent may have left for a program outside of its sandbox."""
        if session.effective_mode is TrustLevel.DIRECT:
            return None
        paths = [folded(path, _PATH_MAX) for path in await self._sandbox.appeared(session)]
        if not paths:
            return None
        return (
            "protected files appeared or changed while the agent ran; look at them before a program outside of "
            f"the sandbox uses them: {', '.join(paths)}"
        )

    async def _processes(self, session: Session) -> str | None:
        if session.exit is None:  # the next process of a restart ends them
            return None
        left = await self._leftovers.of([session.id])
        return words_of_leftovers(left) if left else None
