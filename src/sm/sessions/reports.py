"""Reports of sessions about themselves: completion, checkpoints, notes."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from sm.core.effects import EffectKind
from sm.core.labels import short_label
from sm.core.lifecycle import is_ended, is_live
from sm.core.lines import RESULT_MAX
from sm.core.models import Caller, Checkpoint, RequestKey, Session, Signal
from sm.core.requests import Question
from sm.core.states import EventType, Mode, RequestKind, SignalKind
from sm.core.statuses import Status
from sm.core.text import NOTE_MAX, REFUSED, REPORT_MAX, cut_marks, folded, quoted
from sm.core.turns import FROM_FINAL_MESSAGE
from sm.core.warnings import WarningKind
from sm.core.wording import subject
from sm.errors import IllegalState, IllegalTransition, InvalidText, UsageError
from sm.operations.access_rules import REPORT
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import LIST_REQUESTS
from sm.sessions.authorizer import Authorizer
from sm.sessions.spawn import SessionResult
from sm.state.endings import Endings
from sm.state.notices import Notices
from sm.state.quota import Quota
from sm.state.request_steps import NewRequest, open_of, open_request
from sm.state.session_steps import move
from sm.state.signs import end_sign
from sm.store import Store, Transaction

_LOOKED_AT = 4
"""Normalization shortens a text at most so many times: what is beyond is cut before it."""
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[@-~]")
"""A control sequence, as in the output of a program that prints in colours (ECMA-48, 5.4)."""
_LINE_ENDS = re.compile(r"\s*[\n\u2028\u2029]\s*")


def normalize_report(
    text: str, what: str, limit: int, *, one_line: bool = False
) -> tuple[str, tuple[str, ...]]:
    """The text in NFC with LF newlines, at most `limit` characters, and a warning for each other change.

    `what`: the word for it in warnings, such as `note`.
    """
    changes = []
    if one_line:
        text = text.strip()
    kept = text[: _LOOKED_AT * limit].replace("\r\n", "\n")
    if REFUSED.search(kept) is not None:
        kept = REFUSED.sub("", _ESCAPE.sub("", kept))
        changes.append("left out control characters")
    if one_line:
        line = _LINE_ENDS.sub(" ", kept.strip())
        if line != kept.strip():
            changes.append("put on one line")
        kept = line
    if not kept.isascii():
        kept = unicodedata.normalize("NFC", cut_marks(kept))
    if len(kept) > limit or len(text) > _LOOKED_AT * limit:
        kept = kept[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
        changes.append(f"cut to {limit:,} characters")
    return kept, tuple(f"{what}: {change}" for change in changes)


_METADATA_MAX = 50
_METADATA_MAX_BYTES = 64 * 1024
_REPORTS = {
    "completed": SignalKind.REPORTED_COMPLETED,
    "error": SignalKind.REPORTED_ERROR,
    "abandoned": SignalKind.REPORTED_ABANDONED,
}


class Reports:
    """`emitted_at`: when the session made a report that arrives late, from the spool, or None for now."""

    def __init__(
        self, store: Store, authorizer: Authorizer, notices: Notices, endings: Endings, quota: Quota
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._notices = notices
        self._endings = endings
        self._quota = quota

    async def complete(
        self,
        caller: Caller,
        message: str | None,
        status: str,
        key: RequestKey | None,
        emitted_at: str | None = None,
    ) -> SessionResult:
        """Complete the calling session, or propose its completion. Raises IllegalTransition when it has ended."""
        session = self._authorizer.find(caller, "me", REPORT)
        kind = _REPORTS.get(status)
        if kind is None:
            raise UsageError(f"unknown status {folded(status, 40)}", f"use one of: {', '.join(_REPORTS)}")
        text: str | None = None
        changes: tuple[str, ...] = ()
        if message is not None:
            text, changes = normalize_report(message, "message", RESULT_MAX)
        signal = Signal(
            kind, "report", "reported with sm complete", emitted_at or self._store.now(), message=text
        )

        async with self._store.transaction(caller, key) as tx:
            done = tx.session(session.id)
            if tx.replayed is None:
                check_setup_is_over(tx, done)
                if done.status is Status.COMPLETED and done.status_source == FROM_FINAL_MESSAGE:
                    done = await self._correct(tx, done, signal)
                elif is_ended(done.status):
                    raise IllegalTransition(
                        f"session {short_label(session)} has already ended ({done.status})"
                    )
                elif done.mode is Mode.SUPERVISED and kind is SignalKind.REPORTED_COMPLETED:
                    done = await self.propose(tx, done, text, signal.emitted_at)
                else:
                    done = await self.complete_session(tx, session.id, signal)
                tx.remember(session.id)
        if not is_ended(done.status):
            return SessionResult(done, changes)
        unfinished = self._store.index.unfinished.values()
        live = [s for s in unfinished if s.parent_id == session.id and is_live(s.status)]
        if live:
            count = f"{len(live)} {'child is' if len(live) == 1 else 'children are'} still live"
            changes = (*changes, f"{count}: {', '.join(s.display_name for s in live)}")
        return SessionResult(done, changes)

    async def complete_session(self, tx: Transaction, session_id: str, signal: Signal) -> Session:
        """End the session after its report, or after the approval of its proposal."""
        before = tx.session(session_id)
        after = await move(tx, self._notices, session_id, signal)
        after = await self._endings.ended_without_process(tx, before, after)
        await self._endings.clean_up_completed(tx, after)
        return after

    async def _correct(self, tx: Transaction, session: Session, signal: Signal) -> Session:
        """Replace the end that sm detected in the final message of a turn by the session's own report."""
        if signal.kind is SignalKind.REPORTED_COMPLETED:
            message = signal.message or session.completion_message
            return await tx.update(
                session,
                completion_message=message,
                status_source=signal.source,
                status_reason=signal.reason,
            )
        # The parent heard of a success: it must hear of this end too.
        again = Signal(SignalKind.REOPENED, "report", "the session reports another result", tx.now)
        await move(tx, self._notices, session.id, again)
        return await self.complete_session(tx, session.id, signal)

    async def propose(
        self, tx: Transaction, session: Session, text: str | None, at: str, evidence: str | None = None
    ) -> Session:
        """Ask for approval of a completion. One proposal can be open at a time.

        `evidence`: what sm has detected, or None if the session proposes it.
        """
        if open_of(tx.mail.open.requests, session.id, [RequestKind.COMPLETION]):
            raise IllegalState(
                f"session {short_label(session)} has already proposed its completion",
                Hint("list open requests: ", Use(LIST_REQUESTS)),
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
            self._notices,
            session,
            NewRequest(RequestKind.COMPLETION, (Question(text or ""),), evidence=evidence),
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
    ) -> tuple[Checkpoint, tuple[str, ...]]:
        """Record a milestone of the calling session. Returns it with warnings about changes of its text."""
        session = self._authorizer.find(caller, "me", REPORT)
        text, changes = normalize_report(message, "message", RESULT_MAX)
        if not text.strip():
            raise UsageError("the message is empty", 'sm checkpoint "Data model done"')
        checkpoint = Checkpoint(emitted_at or self._store.now(), text, _validate_metadata(metadata))

        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is None:
                now = tx.session(session.id)
                check_setup_is_over(tx, now)
                self._quota.check_report(now, tx.now)
                line = f"{subject(session)} - {quoted(checkpoint.message)}"
                await tx.checkpoint(now, checkpoint, line)
                await self._notices.add_for_checkpoint(tx, now, checkpoint)
                await end_sign(tx, now, WarningKind.REPORT_MISSING)
                tx.remember(session.id)
        return checkpoint, changes

    async def note(
        self, caller: Caller, text: str, key: RequestKey | None, emitted_at: str | None = None
    ) -> SessionResult:
        """Say what the calling session does. An empty text removes the note."""
        session = self._authorizer.find(caller, "me", REPORT)
        line, changes = normalize_report(text, "note", NOTE_MAX, one_line=True)
        async with self._store.transaction(caller, key) as tx:
            after = tx.session(session.id)
            if tx.replayed is None:
                check_setup_is_over(tx, after)
                self._quota.check_report(after, tx.now)
                after = await tx.update(after, note=line)
                text = f"{subject(after)} - {quoted(line)}"
                await tx.event(EventType.NOTE, after, emitted_at or tx.now, text, {})
                tx.remember(session.id)
        return SessionResult(after, changes)


def check_setup_is_over(tx: Transaction, session: Session) -> None:
    """Raise IllegalState while the session's worktree is made or set up: its agent has not begun to work.

    The set-up has the session's identity, so an install script of a repository could report in its name.
    """
    if is_live(session.status) and tx.has_open(EffectKind.WORKTREE, session.id):
        raise IllegalState(
            f"the agent of session {short_label(session)} has not started yet: its worktree is being set up"
        )


def _validate_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a checkpoint as texts. Raises UsageError for too many and InvalidText for too much."""
    if len(metadata) > _METADATA_MAX:
        raise UsageError(f"too many metadata entries: {len(metadata)}, at most {_METADATA_MAX} are allowed")
    checked = {
        normalize_report(name, "metadata", NOTE_MAX, one_line=True)[0]: normalize_report(
            str(value), "metadata", REPORT_MAX
        )[0]
        for name, value in metadata.items()
    }
    size = sum(len(text.encode()) for entry in checked.items() for text in entry)
    if size > _METADATA_MAX_BYTES:
        raise InvalidText(f"metadata: {size:,} bytes, at most {_METADATA_MAX_BYTES:,} are allowed")
    return checked
