"""Closes the terminals of ended sessions after a number and a time (`child_agents.cleanup.keep_terminals`).

Also ends the processes of completed sessions.

tmux goes through all panes for many commands, so every kept terminal makes every later spawn slower.
"""

import asyncio
import logging
from collections.abc import Mapping

from sm.config.model import Cleanup, KeepTerminals
from sm.core.effects import EffectKind
from sm.core.models import Session
from sm.core.statuses import Status
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s
from sm.errors import NoServer, NoTerminal, SmError, StorageFull
from sm.sessions.keepers import SessionKeeper
from sm.store import Store
from sm.terminals.base import Lifecycle, Pane

log = logging.getLogger(__name__)

_ROUND_EVERY_S = 5.0
_FULL_ROUND_EVERY_S = 60.0
"""The longest pause while no event happens: the hours of a terminal may be over, or a person stopped looking at it."""
_AT_ONCE = 10
"""Closed together, so that a spawn never waits long for tmux."""
_CLOSED_WITHIN_S = 30.0
_ON_TERMINAL = frozenset({EffectKind.ARCHIVE, EffectKind.CLOSE, EffectKind.REMOVE})


def expired(
    sessions: Mapping[str, Session], panes: Mapping[str, Pane], keep: KeepTerminals, now_s: float
) -> list[Session]:
    """The ended sessions whose terminals `keep` no longer covers, oldest ending first.

    Never selects a terminal in which a process runs (a person may have started one), which a person looks at, or
    which belongs to a person.
    """
    ended = [
        (_ended_s(session, pane), session, pane)
        for session_id, pane in panes.items()
        if (session := sessions.get(session_id)) is not None
        and session.exit is not None
        and pane.dead
        and not pane.foreign
    ]
    ended.sort(key=lambda entry: (entry[0], entry[1].created_at), reverse=True)
    oldest_s = now_s - keep.hours * 3600
    old = [
        (session, pane)
        for place, (at, session, pane) in enumerate(ended)
        if place >= keep.last or at < oldest_s
    ]
    return [session for session, pane in reversed(old) if not pane.viewed]


def _ended_s(session: Session, pane: Pane) -> float:
    """The end of the process, in seconds since the epoch; the last known activity if tmux does not know the end."""
    if pane.dead_since_s is not None:
        return pane.dead_since_s
    return max(pane.activity_s, started_s(session))


def started_s(session: Session) -> float:
    """The start of the session's newest process, in seconds since the epoch; 0 if it never had one."""
    return epoch_s(session.started_at) if session.started_at else 0.0


class TerminalCleanup:
    def __init__(self, cleanup: Cleanup, store: Store, terminals: Lifecycle, keeper: SessionKeeper) -> None:
        self._cleanup = cleanup
        self._store = store
        self._terminals = terminals
        self._keeper = keeper
        self._unsaved: set[str] = set()
        """Sessions whose output could not be saved, so that the log gets one warning for each."""

    async def run(self) -> None:
        """Never returns."""
        loop = asyncio.get_running_loop()
        seq, next_s = -1, loop.time()
        while True:
            if self._store.last_seq != seq or loop.time() >= next_s:
                seq, next_s = self._store.last_seq, loop.time() + _FULL_ROUND_EVERY_S
                try:
                    while await self.close_expired():
                        pass
                except SmError as error:
                    log.warning("could not close the terminals of ended sessions: %s", error.message)
                except Exception:
                    log.exception("failed to close the terminals of ended sessions")
            await asyncio.sleep(_ROUND_EVERY_S)

    async def close_expired(self) -> bool:
        """Save the output of some expired terminals, and close them. Returns True if more may be left: call again."""
        try:
            panes = await self._terminals.snapshot()
        except NoServer:
            return False
        now_s = epoch_s(self._store.now())
        busy = {e.session_id for e in self._store.mail.open.effects.values() if e.kind in _ON_TERMINAL}
        old = expired(self._store.sessions, panes, self._cleanup.keep_terminals, now_s)
        left = [session for session in old if session.id not in busy and session.id not in self._unsaved]
        batch = [session for session in left[:_AT_ONCE] if await self._is_saved(session)]
        async with self._store.transaction() as tx:
            for session in batch:
                now = tx.find(session.id)
                # Restored or removed since: then the terminal is another one, or gone.
                if now is not None and now.exit is not None and now.runs == session.runs:
                    await tx.effect(EffectKind.CLOSE, now.id, {"terminal": now.terminal}, tx.now)
        closing = {session.id for session in batch}
        closed = await self._store.wait_until(lambda: not closing & self._closing(), _CLOSED_WITHIN_S)
        return closed and len(left) > _AT_ONCE

    def _closing(self) -> set[str]:
        effects = self._store.mail.open.effects.values()
        return {effect.session_id for effect in effects if effect.kind == EffectKind.CLOSE}

    async def _is_saved(self, session: Session) -> bool:
        """Save the output unless it is saved or not wanted. Returns False if the terminal must stay, or is gone."""
        if not self._cleanup.auto_archive_transcript:
            return True
        if await self._keeper.is_kept(session.id, started_s(session)):
            return True
        try:
            reason = await self._keeper.keep(session.id, session.terminal, started_s(session))
        except (NoTerminal, NoServer, StorageFull):  # with a full disk, the next round tries again
            return False
        # With too little space for the transcripts, the output is saved all the same.
        if reason is None or await self._keeper.is_kept(session.id, started_s(session)):
            return True
        self._unsaved.add(session.id)
        log.warning("left a terminal open: %s", reason, extra={"sm_session": session.id})
        return False


class Reaper:
    """Ends the processes of completed sessions after `cleanup.reap_completed_after`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def reap(self, timer: Timer) -> float | None:
        """End the process, unless the session has been reopened or has ended since."""
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if not tx.timers.take(timer) or session is None or session.exit is not None:
                return None
            is_same = session.completed_at == timer.data.get("completed_at")
            if session.status is Status.COMPLETED and is_same:
                payload = {"force": False, "by": "cleanup.reap_completed_after"}
                await tx.effect(EffectKind.KILL, session.id, payload, tx.now)
        return None
