"""Derives the status of agents without turns from their waiting `sm` commands: idle, or waiting for input.

A wait is a series of long requests with short gaps, and a longer gap over a restart of the daemon. So a session is
running again only after a time without a wait, or when its wait succeeded.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from sm.core.lifecycle import is_live
from sm.core.models import Session, Signal
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.sessions.manager import Manager
from sm.state.notices import WAITS_FOR_SESSIONS
from sm.store import Store, durable

log = logging.getLogger(__name__)

_BETWEEN_S = 1.0
_AFTER_A_RESTART_S = 7.0  # longer than a session's command retries while the daemon is stopped
_CONFIRM_WITHIN_S = 8.0
"""How long a command may take to confirm what its successful wait returned."""


class WaitKind(StrEnum):
    """The kinds of waits. The value is the source of the status."""

    MESSAGES = "inbox"
    SESSIONS = WAITS_FOR_SESSIONS
    ANSWER = "ask"


_STATUSES = {
    WaitKind.ANSWER: (Status.WAITING_INPUT, SignalKind.ASKED, "waiting for an answer (sm ask --wait)"),
    WaitKind.MESSAGES: (Status.IDLE, SignalKind.WENT_IDLE, "waiting for messages (sm inbox --wait)"),
    WaitKind.SESSIONS: (Status.IDLE, SignalKind.WENT_IDLE, "waiting for other sessions (sm wait)"),
}
"""Status, signal and reason of a waiting session. Of several waits, the first entry wins."""
_WORKING = (Status.RUNNING, Status.IDLE, Status.WAITING_INPUT)


class WaitingSessions:
    """Counts the waits of each session, and updates its status."""

    def __init__(self, store: Store, manager: Manager) -> None:
        self._store = store
        self._manager = manager
        self._waits: Counter[tuple[str, WaitKind]] = Counter()
        self._until: dict[str, float] = {}
        """The time at which a session without a wait becomes running again (time.monotonic())."""
        self._succeeded: dict[tuple[str, WaitKind], float] = {}
        """The time of the last successful wait (time.monotonic())."""
        self._poked = asyncio.Event()

    @contextmanager
    def count_wait(self, session_id: str | None, what: WaitKind) -> Iterator[None]:
        """Count a wait for the duration of the block. Waits of the operator (None) have no effect."""
        if session_id is None:
            yield
            return
        self._waits[session_id, what] += 1
        self._poked.set()
        try:
            yield
        finally:
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

    def has_just_succeeded(self, session_id: str, what: WaitKind) -> bool:
        """True while the waiting command may still confirm what it got."""
        at = self._succeeded.get((session_id, what))
        return at is not None and time.monotonic() - at < _CONFIRM_WITHIN_S

    async def run(self) -> None:
        """Never returns."""
        deadline = time.monotonic() + _AFTER_A_RESTART_S
        for session in self._store.sessions.values():
            if session.status in (Status.IDLE, Status.WAITING_INPUT) and self._has_no_turns(session):
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
        """Correct every status; return the seconds until the next refresh (None: no time limit)."""
        now = time.monotonic()
        before = dict(self._until)
        for session_id in {s for s, _ in self._waits} | before.keys():
            session = self._store.sessions.get(session_id)
            signal = None if session is None else self._correction(session, now)
            if signal is not None:
                try:
                    await self._observe(session_id, signal)
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
        await self._manager.observe(session_id, signal)

    def _has_wrong_status(self) -> bool:
        """True if the status of a waiting session does not match its wait."""
        now = time.monotonic()
        sessions = self._store.sessions
        return any(s in sessions and self._correction(sessions[s], now) is not None for s, _ in self._waits)

    def _has_no_turns(self, session: Session) -> bool:
        return not self._manager.provider(session).has_turns

    def _correction(self, session: Session, now: float) -> Signal | None:
        """The signal that corrects the session's status; None when the status is correct."""
        if not is_live(session.status) or not self._has_no_turns(session):
            return None
        at = self._manager.now()
        for what, (status, kind, reason) in _STATUSES.items():
            if self.is_waiting(session.id, what):
                wrong = session.status is not status and session.status in _WORKING
                return Signal(kind, what, reason, at) if wrong else None
        if session.status in (Status.IDLE, Status.WAITING_INPUT) and now >= self._until.get(session.id, now):
            return Signal(SignalKind.BUSY, session.status_source, "no longer waiting", at)
        return None
