"""Reads the last lines of ended sessions again that could not be read when they ended."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import field

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.timers import Timer, TimerKind
from sm.errors import SmError
from sm.monitor.observer import Observer
from sm.state.endings import Endings
from sm.state.unread_transcripts import tell_unread
from sm.store import Store

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 3600.0
_TOLD_AFTER = 4
"""After how many reads a warning is recorded."""


@dataclass(slots=True)
class _Tries:
    due_s: float = 0.0
    """A time of the steady clock."""
    count: int = 0
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S))


class UnreadTranscripts:
    """One task that reads one transcript at a time. The timer `unread` of a session stays until that has succeeded.

    A new daemon tries all of them at once. `steady`: the time of a clock that nobody sets.
    """

    def __init__(
        self, store: Store, endings: Endings, observer: Observer, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._endings = endings
        self._observer = observer
        self._steady = steady
        self._tries: dict[str, _Tries] = {}

    async def run(self) -> None:
        """Never returns."""
        while True:
            timers = self._store.mail.open.timers
            pause_s = await self._read_due(timers)
            await self._store.wait_until(lambda: self._store.mail.open.timers is not timers, pause_s)  # noqa: B023

    async def _read_due(self, timers: Mapping[tuple[str, str], Timer]) -> float | None:
        """Read what is due. Returns the seconds until the next read; None without one."""
        unread = {timer.subject: timer for timer in timers.values() if timer.kind == TimerKind.UNREAD}
        self._tries = {session_id: self._tries.get(session_id, _Tries()) for session_id in unread}
        for session_id, timer in unread.items():
            tries = self._tries[session_id]
            if self._steady() >= tries.due_s and await self._is_read(timer, tries):
                del self._tries[session_id]
        return min((max(0.0, t.due_s - self._steady()) for t in self._tries.values()), default=None)

    async def _is_read(self, timer: Timer, tries: _Tries) -> bool:
        session_id = timer.subject
        try:
            why = await self._read(session_id)
            if why is None:
                async with self._store.transaction() as tx:
                    session = tx.find(session_id)
                    if tx.timers.take(timer) and session is not None and session.exit is not None:
                        await self._endings.archive(tx, session)  # its archive lacks the last usage
                return True
            tries.count += 1
            if tries.count >= _TOLD_AFTER and not timer.data.get("told"):
                async with self._store.transaction() as tx:
                    await tell_unread(tx, timer, why)
        except SmError as error:  # such as a full disk
            log.warning(
                "could not record a read of a transcript: %s", error.message, extra={"sm_session": session_id}
            )
        except Exception:
            log.exception("failed to read the end of a transcript", extra={"sm_session": session_id})
        tries.due_s = self._steady() + tries.backoff.next_s()
        return False

    async def _read(self, session_id: str) -> str | None:
        session = self._store.sessions.get(session_id)
        if session is not None and session.exit is None and not self._observer.observes(session_id):
            return "its next process starts"  # which reads all lines of the session
        return await self._observer.read_to_end(session_id)
