"""Derives the status of agents without turns from their waits: idle, or waiting for input.

An agent with turns stays running while its turn waits for other sessions. Only the reason of its status changes.

A wait is a series of long requests with short gaps, and a longer gap over a restart of the daemon. So a session is
running again only after a time without a wait, or when its wait succeeded.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

from sm.core.lifecycle import is_live
from sm.core.models import Session, Signal
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.core.wording import waits_for
from sm.providers.base import Provider
from sm.state.notices import WAITS_FOR_SESSIONS, Notices
from sm.state.session_steps import move
from sm.store import Store, durable

log = logging.getLogger(__name__)

_BETWEEN_S = 1.0
AFTER_A_RESTART_S = 7.0  # longer than a session's command retries while the daemon is stopped
_CONFIRM_WITHIN_S = 8.0
"""How long a command may take to confirm what its successful wait returned."""


_OVER = "no longer waiting"

Awaited = Callable[[], Sequence[Session]]
"""The sessions that a wait still waits for."""


class WaitKind(StrEnum):
    """The kinds of waits. The value is the source of the status."""

    MESSAGES = "inbox"
    SESSIONS = WAITS_FOR_SESSIONS
    ANSWER = "ask"


_STATUSES = {
    WaitKind.ANSWER: (Status.WAITING_INPUT, SignalKind.ASKED, "waiting for an answer (sm ask --wait)"),
    WaitKind.MESSAGES: (Status.IDLE, SignalKind.WENT_IDLE, "waiting for messages (sm inbox --wait)"),
    WaitKind.SESSIONS: (Status.IDLE, SignalKind.WENT_IDLE, "waiting for other sessions"),
}
"""Status, signal and reason of a waiting session without turns. Of several waits, the first entry wins."""
_WORKING = (Status.RUNNING, Status.IDLE, Status.WAITING_INPUT)


class WaitingSessions:
    """Counts the waits of each session, and updates its status."""

    def __init__(self, store: Store, notices: Notices, providers: Mapping[str, Provider]) -> None:
        self._store = store
        self._notices = notices
        self._providers = providers
        self._waits: Counter[tuple[str, WaitKind]] = Counter()
        self._awaited: dict[str, list[Awaited]] = {}
        """For each session that waits for others, its waits."""
        self._until: dict[str, float] = {}
        """The time at which a session without a wait becomes running again (time.monotonic())."""
        self._succeeded: dict[tuple[str, WaitKind], float] = {}
        """The time of the last successful wait (time.monotonic())."""
        self._poked = asyncio.Event()

    @contextmanager
    def count_wait(
        self, session_id: str | None, what: WaitKind, awaited: Awaited | None = None
    ) -> Iterator[None]:
        """Count a wait for the duration of the block. Waits of the operator (None) have no effect."""
        if session_id is None:
            yield
            return
        self._waits[session_id, what] += 1
        if awaited is not None:
            self._awaited.setdefault(session_id, []).append(awaited)
        self._poked.set()
        try:
            yield
        finally:
            if awaited is not None:
                self._awaited[session_id].remove(awaited)
                if not self._awaited[session_id]:
                    del self._awaited[session_id]
            self._waits[session_id, what] -= 1
            self._until[session_id] = time.monotonic() + _BETWEEN_S
            self._poked.set()

    def end_wait(self, session_id: str | None, what: WaitKind) -> None:
        """Make the session running again without a delay, because its wait succeeded."""
        if session_id is not None:
            self._until[session_id] = 0.0
            self._succeeded[session_id, what] = time.monotonic()
            self._poked.set()

    def is_waiting(self, session_id: str, what: WaitKind) -> bool:
        return self._waits[session_id, what] > 0

    def may_wait_again(self, session_id: str | None) -> bool:
        """True between two requests of one wait for sessions, also over a restart of the daemon."""
        session = self._store.sessions.get(session_id or "")
        return (
            session is not None
            and _says_waiting(session)
            and not self.is_waiting(session.id, WaitKind.SESSIONS)
        )

    def activity(self, session_id: str) -> str | None:
        """The sessions that the session waits for, as a text for people, or None if it does not wait."""
        left = self._left(session_id)
        return waits_for(left, named=True) if left else None

    def _left(self, session_id: str) -> list[Session]:
        """The sessions that the session still waits for, each once."""
        waits = self._awaited.get(session_id, ())
        return list({session.id: session for awaited in waits for session in awaited()}.values())

    def has_just_succeeded(self, session_id: str, what: WaitKind) -> bool:
        """True while the waiting command may still confirm what it got."""
        at = self._succeeded.get((session_id, what))
        return at is not None and time.monotonic() - at < _CONFIRM_WITHIN_S

    async def run(self) -> None:
        """Never returns."""
        deadline = time.monotonic() + AFTER_A_RESTART_S
        for session in self._store.sessions.values():
            is_derived = session.status in (Status.IDLE, Status.WAITING_INPUT) and self._has_no_turns(session)
            if is_derived or _says_waiting(session):
                self._until[session.id] = deadline
        while True:
            self._poked.clear()
            pause_s = await self._refresh()
            waits = [
                asyncio.ensure_future(wait)
                for wait in (self._store.wait_until(self._has_wrong_status), self._poked.wait())
            ]
            try:
                await asyncio.wait(waits, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def _refresh(self) -> float | None:
        """Correct every status; return the seconds until the next refresh (None without a time limit)."""
        now = time.monotonic()
        before = dict(self._until)
        for session_id in {s for s, _ in self._waits} | before.keys():
            session = self._store.sessions.get(session_id)
            if session is None:
                continue
            signal, explanation = self._correction(session, now), self._explanation(session, now)
            if signal is not None or explanation is not None:
                try:
                    if signal is not None:
                        await self._observe(session_id, signal)
                    elif explanation is not None:
                        await self._explain(session, *explanation)
                except Exception:
                    log.exception("could not update a status", extra={"sm_session": session_id})
                    await asyncio.sleep(_BETWEEN_S)
        self._waits = +self._waits
        self._succeeded = {wait: at for wait, at in self._succeeded.items() if now - at < _CONFIRM_WITHIN_S}
        # Keep the times that were set while a status was written: the next refresh handles them.
        self._until = {s: u for s, u in self._until.items() if u > now or before.get(s) != u}
        return max(0.0, min(self._until.values()) - now) if self._until else None

    @durable
    async def _observe(self, session_id: str, signal: Signal) -> None:
        async with self._store.transaction() as tx:
            await move(tx, self._notices, session_id, signal)

    @durable
    async def _explain(self, session: Session, source: WaitKind, reason: str) -> None:
        """Change the reason of the status, which began earlier and does not change."""
        async with self._store.transaction() as tx:
            now = tx.session(session.id)
            if now.status is session.status:
                continues = _says_waiting(now) and reason != _OVER
                at = now.status_at if continues else self._store.now()
                await tx.update(now, status_source=source, status_reason=reason, status_at=at)

    def _has_wrong_status(self) -> bool:
        """True if the status or the reason of a waiting session does not match its wait."""
        now = time.monotonic()
        waiting = [s for s in (self._store.sessions.get(id) for id, _ in self._waits) if s is not None]
        return any(
            self._correction(s, now) is not None or self._explanation(s, now) is not None for s in waiting
        )

    def _has_no_turns(self, session: Session) -> bool:
        return not self._providers[session.provider].has_turns

    def _correction(self, session: Session, now: float) -> Signal | None:
        """The signal that corrects the session's status; None when the status is correct."""
        if not is_live(session.status) or not self._has_no_turns(session):
            return None
        at = self._store.now()
        for what, (status, kind, reason) in _STATUSES.items():
            if self.is_waiting(session.id, what):
                wrong = session.status is not status and session.status in _WORKING
                if what is WaitKind.SESSIONS and (left := self._left(session.id)):
                    reason = waits_for(left, named=False)
                return Signal(kind, what, reason, at) if wrong else None
        if session.status in (Status.IDLE, Status.WAITING_INPUT) and now >= self._until.get(session.id, now):
            return Signal(SignalKind.BUSY, session.status_source, _OVER, at)
        return None

    def _explanation(self, session: Session, now: float) -> tuple[WaitKind, str] | None:
        """The source and the reason that the status should have; None when no wait for sessions changes the reason."""
        has_no_turns = self._has_no_turns(session)
        if session.status is not (Status.IDLE if has_no_turns else Status.RUNNING):
            return None
        is_by_wait = session.status_source == WaitKind.SESSIONS
        if left := self._left(session.id):
            reason = waits_for(left, named=False)
            is_wrong = session.status_reason != reason if is_by_wait else not has_no_turns
            return (WaitKind.SESSIONS, reason) if is_wrong else None
        is_over = not self.is_waiting(session.id, WaitKind.SESSIONS) and now >= self._until.get(
            session.id, now
        )
        if not (_says_waiting(session) and is_over):
            return None
        if not has_no_turns:
            return WaitKind.SESSIONS, _OVER
        # The agent is idle by its other wait, which may be the one for the notice of an end.
        is_in_inbox = self.is_waiting(session.id, WaitKind.MESSAGES)
        return (WaitKind.MESSAGES, _STATUSES[WaitKind.MESSAGES][2]) if is_in_inbox else None


def _says_waiting(session: Session) -> bool:
    """True for a live session whose status reason is a wait for sessions."""
    is_by_wait = session.status_source == WaitKind.SESSIONS and session.status_reason != _OVER
    return is_live(session.status) and is_by_wait
