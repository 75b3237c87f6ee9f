"""Finds the sessions whose rows in a live view may have changed."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping

from sm.core.attention import Attention
from sm.core.live import LiveRow
from sm.core.messages import Message
from sm.core.requests import Request
from sm.core.states import MessageState
from sm.monitor.monitor import Monitor
from sm.store import Store
from sm.store.open_work import Parts

_SWEEP_EVERY_S = 2.0
"""How often to look for staleness, which comes with the time and not with an event."""
_PRINTED_EVERY_S = 5.0
"""How often output of a terminal alone changes a row: an agent at work prints every second."""

_AGED_EVERY_S = 600.0


class LiveChanges:
    """Compares the rows with their sources: the committed data in memory, the terminals and the hooks.

    A source that replaces its values is compared by identity, so that a look costs little when nothing has changed.
    """

    def __init__(self, store: Store, monitor: Monitor, rows: Mapping[str, LiveRow]) -> None:
        self._store = store
        self._monitor = monitor
        self._rows = rows
        self._commits = -1
        self._requests_seen: Mapping[int, Request] | None = None
        self._messages_seen: Mapping[int, Message] | None = None
        self._parts_seen: Parts = {}
        self._swept_s = self._printed_s = self._aged_s = 0.0
        self._unfinished: Collection[str] = ()
        """The unfinished sessions of the last sweep."""
        self.requests: dict[str, tuple[Request, ...]] = {}
        """The open requests of each session that have no proposed answer, oldest first."""
        self.held: Mapping[str, int] = {}
        """The number of queued messages to each session."""

    def are_committed(self) -> bool:
        """True if there was a commit since the last look."""
        return self._store.changes != self._commits

    def take(self) -> dict[str, None]:
        """The ids of sessions without a row, of rows without a session, and of rows that may be out of date.

        Oldest first as far as they are new. Staleness, and output of terminals, are seen some seconds later.
        """
        found: dict[str, None] = {}
        if self.are_committed():
            self._commits = self._store.changes
            sessions, rows = self._store.sessions, self._rows
            for session_id, session in sessions.items():
                row = rows.get(session_id)
                if row is None or row.session is not session:
                    found[session_id] = None
            found |= dict.fromkeys(rows.keys() - sessions.keys())  # removed, or no longer in memory
            found |= dict.fromkeys(self._changed_mail())
        found |= dict.fromkeys(self._observed())
        return found

    def of_capabilities(self, session_id: str) -> tuple[object, ...]:
        """The rows of capabilities of a session, as of the last look."""
        of_sessions = (rows for part, rows in self._parts_seen.items() if part.by_session)
        return tuple(rows[session_id] for rows in of_sessions if session_id in rows)

    def _changed_mail(self) -> set[str]:
        open = self._store.mail.open
        changed: set[str] = set()
        if open.requests is not self._requests_seen:
            self._requests_seen = open.requests
            requests: dict[str, tuple[Request, ...]] = {}
            for request in open.requests.values():
                if request.open and not request.has_proposed_answer:
                    requests[request.session_id] = (*requests.get(request.session_id, ()), request)
            changed |= _different(self.requests, requests)
            self.requests = requests
        if open.messages is not self._messages_seen:
            self._messages_seen = open.messages
            queued = (m for m in open.messages.values() if m.state is MessageState.QUEUED)
            held = Counter(m.session_id for m in queued if m.session_id is not None)
            changed |= _different(self.held, held)
            self.held = held
        if open.parts is not self._parts_seen:
            for part in {*self._parts_seen, *open.parts}:
                if part.by_session:
                    changed |= _different(part.rows_in(self._parts_seen), part.rows_in(open.parts))
            self._parts_seen = open.parts
        return changed & self._store.sessions.keys()

    def _aged(self, now: float) -> list[str]:
        """Now and then the sessions that nobody has seen, which leave their group with the time."""
        if now - self._aged_s < _AGED_EVERY_S:
            return []
        self._aged_s = now
        unseen = (Attention.FAILED, Attention.DONE)
        return [session_id for session_id, row in self._rows.items() if row.attention in unseen]

    def _observed(self) -> list[str]:
        """Rows whose activity has changed, and now and then those that became stale or whose terminal printed."""
        monitor, rows = self._monitor, self._rows
        now = asyncio.get_running_loop().time()
        found = self._aged(now)
        sweeps, prints = now - self._swept_s >= _SWEEP_EVERY_S, now - self._printed_s >= _PRINTED_EVERY_S
        unfinished = self._store.index.unfinished
        # The observation of an ended process is forgotten shortly after its end.
        looked_at = {*unfinished, *self._unfinished}
        for session_id in looked_at:
            row = rows.get(session_id)
            if row is not None and (
                row.activity != monitor.activity(session_id)
                or (sweeps and row.stale != monitor.is_stale(session_id))
                or (prints and row.printed_s != monitor.activity_s(session_id))
            ):
                found.append(session_id)
        if sweeps:
            self._swept_s = now
        if prints:
            self._printed_s, self._unfinished = now, tuple(unfinished)
        return found


def _different(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """The keys with another value, or in one of the mappings only."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
