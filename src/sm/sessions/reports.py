"""Reports of sessions about themselves: completion, checkpoints, notes."""

from collections.abc import Mapping
from typing import Any

from sm.core.labels import short_label
from sm.core.lifecycle import is_ended, is_live
from sm.core.models import Caller, Checkpoint, RequestKey, Session, Signal
from sm.core.requests import Question
from sm.core.states import EventType, Mode, RequestKind, SignalKind
from sm.core.text import NOTE_MAX, REPORT_MAX, folded, quoted, validate_text
from sm.core.wording import subject
from sm.errors import IllegalState, IllegalTransition, InvalidText, UsageError
from sm.policy.access import Action
from sm.sessions.manager import Manager, SessionResult
from sm.state.requests import NewRequest, open_of, open_request
from sm.state.sessions import move
from sm.store import Store, Transaction

_METADATA_MAX = 50
_METADATA_MAX_BYTES = 64 * 1024
_REPORTS = {
    "completed": SignalKind.REPORTED_COMPLETED,
    "error": SignalKind.REPORTED_ERROR,
    "abandoned": SignalKind.REPORTED_ABANDONED,
}


class Reports:
    """`emitted_at`: when the session made a report that arrives late, from the spool; None: now."""

    def __init__(self, store: Store, manager: Manager) -> None:
        self._store = store
        self._manager = manager

    async def complete(
        self,
        caller: Caller,
        message: str | None,
        status: str,
        key: RequestKey | None,
        emitted_at: str | None = None,
    ) -> SessionResult:
        """Complete the calling session, or propose its completion. Raises IllegalTransition when it has ended."""
        session = self._manager.find(caller, "me", Action.REPORT)
        kind = _REPORTS.get(status)
        if kind is None:
            raise UsageError(f"unknown status {folded(status, 40)}", f"use one of: {', '.join(_REPORTS)}")
        text = None if message is None else validate_text(message, "message", REPORT_MAX)
        signal = Signal(
            kind, "report", "reported with sm complete", emitted_at or self._manager.now(), message=text
        )

        async with self._store.transaction(caller, key) as tx:
            done = tx.session(session.id)
            if tx.replayed is None:
                if is_ended(done.status):
                    raise IllegalTransition(
                        f"session {short_label(session)} has already ended ({done.status})"
                    )
                if done.mode is Mode.SUPERVISED and kind is SignalKind.REPORTED_COMPLETED:
                    done = await self._propose(tx, done, text, signal.emitted_at)
                else:
                    done = await self.complete_session(tx, session.id, signal)
                tx.remember(session.id)
        if not is_ended(done.status):
            return SessionResult(done)
        unfinished = self._store.index.unfinished.values()
        live = [s for s in unfinished if s.parent_id == session.id and is_live(s.status)]
        warning = f"{len(live)} {'child is' if len(live) == 1 else 'children are'} still live: "
        return SessionResult(done, (warning + ", ".join(s.display_name for s in live),) if live else ())

    async def complete_session(self, tx: Transaction, session_id: str, signal: Signal) -> Session:
        """End the session after its report, or after the approval of its proposal."""
        after = await move(tx, self._manager.notices, session_id, signal)
        await self._manager.endings.kill_completed(tx, after)
        return after

    async def _propose(self, tx: Transaction, session: Session, text: str | None, at: str) -> Session:
        """Ask for approval of a supervised session's completion. One proposal can be open at a time."""
        if open_of(tx.mail.open.requests, session.id, [RequestKind.COMPLETION]):
            raise IllegalState(
                f"session {short_label(session)} has already proposed its completion",
                "list open requests: sm requests",
            )
        words = text or "done"
        await tx.event(
            EventType.PROPOSED_COMPLETION,
            session,
            at,
            f"{subject(session)} proposes its completion - {quoted(words)}",
            {"completion_message": text},
        )
        await open_request(
            tx,
            self._manager.notices,
            session,
            NewRequest(RequestKind.COMPLETION, (Question(text or ""),)),
            at,
            None,
        )
        return session

    async def checkpoint(
        self,
        caller: Caller,
        message: str,
        metadata: Mapping[str, Any],
        key: RequestKey | None,
        emitted_at: str | None = None,
    ) -> Checkpoint:
        session = self._manager.find(caller, "me", Action.REPORT)
        checkpoint = Checkpoint(
            emitted_at or self._manager.now(),
            validate_text(message, "message", REPORT_MAX),
            _validate_metadata(metadata),
        )

        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is None:
                now = tx.session(session.id)
                self._manager.quota.check_report(session.id, tx.now)
                line = f"{subject(session)} - {quoted(checkpoint.message)}"
                await tx.checkpoint(now, checkpoint, line)
                await self._manager.notices.add_for_checkpoint(tx, now, checkpoint)
                tx.remember(session.id)
        return checkpoint

    async def note(
        self, caller: Caller, text: str, key: RequestKey | None, emitted_at: str | None = None
    ) -> Session:
        session = self._manager.find(caller, "me", Action.REPORT)
        line = validate_text(text, "note", NOTE_MAX, one_line=True)
        async with self._store.transaction(caller, key) as tx:
            after = tx.session(session.id)
            if tx.replayed is None:
                self._manager.quota.check_report(session.id, tx.now)
                after = await tx.update(after, note=line)
                text = f"{subject(after)} - {quoted(line)}"
                await tx.event(EventType.NOTE, after, emitted_at or tx.now, text, {})
                tx.remember(session.id)
        return after


def _validate_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a checkpoint as texts. Raises UsageError and InvalidText."""
    if len(metadata) > _METADATA_MAX:
        raise UsageError(f"too many metadata entries: {len(metadata)}, at most {_METADATA_MAX} are allowed")
    checked = {
        validate_text(name, "metadata", NOTE_MAX, one_line=True): validate_text(
            str(value), "metadata", REPORT_MAX
        )
        for name, value in metadata.items()
    }
    size = sum(len(text.encode()) for entry in checked.items() for text in entry)
    if size > _METADATA_MAX_BYTES:
        raise InvalidText(f"metadata: {size:,} bytes, at most {_METADATA_MAX_BYTES:,} are allowed")
    return checked
