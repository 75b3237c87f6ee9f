"""Records the ends of processes and terminals that the watcher, the outbox and the start of the daemon report."""

from collections.abc import Sequence

from sm.core.models import Exit, Process
from sm.state.endings import Endings
from sm.state.losses import LossCause
from sm.state.session_steps import is_process_of
from sm.state.unread_transcripts import record_unread
from sm.store import Store


class ProcessEnds:
    def __init__(self, store: Store, endings: Endings) -> None:
        self._store = store
        self._endings = endings

    def has_process(self, session_id: str, process: Process | None) -> bool:
        session = self._store.sessions.get(session_id)
        return session is not None and is_process_of(session, process, self._store.mail.open)

    async def process_ended(
        self,
        session_id: str,
        process: Process | None,
        exit: Exit,
        screen: Sequence[str] = (),
        reason: str | None = None,
        unread: str | None = None,
    ) -> None:
        """Record how and, if known, for which reason a process of the session ended.

        `screen` is the last content of the terminal. `unread`: why the last lines of its transcript are unread.

        Ignores a process that is not the session's own (`has_process`): its end is recorded already, or the session
        was restored since.
        """
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            if is_process_of(session, process, tx.mail.open):
                record_unread(tx, session_id, unread)
                await self._endings.process_ended(tx, session, exit, screen, reason)

    async def terminal_lost(
        self,
        session_id: str,
        process: Process | None,
        cause: LossCause,
        reason: str,
        *,
        process_gone: bool,
        exit: Exit | None = None,
        unread: str | None = None,
    ) -> None:
        """Record that the terminal is gone. Ignores other processes, as `process_ended`.

        `exit`: how a process ended that is gone, if that is known. `unread`: as in `process_ended`.
        """
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            if is_process_of(session, process, tx.mail.open):
                ended = (exit or Exit()) if process_gone else None
                if process_gone:
                    record_unread(tx, session_id, unread)
                await self._endings.terminal_lost(tx, session, cause, reason, ended)
