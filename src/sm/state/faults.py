"""Records failed turns: event, notices, retry, a limit that was met, and the effect that closes its dialog."""

from collections.abc import Mapping

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.faults import Fault, FaultKind
from sm.core.lifecycle import is_live
from sm.core.models import Session
from sm.core.observation import Source
from sm.core.states import EventType
from sm.core.timestamps import epoch_s, iso, later
from sm.core.wording import compaction_event, fault_event, retry_event
from sm.policy.retries import RetryLimits, pause_before_retry_s
from sm.providers.base import Provider
from sm.state.compactions import compact, was_compacted
from sm.state.followers import FaultFollower, MetLimit
from sm.state.notices import Notices
from sm.state.retries import end_row, last_retry_at, plan_retry, retries_before
from sm.store import Transaction

_OCCASION = "fault:"
_SAME_FAULT_S = 10.0
"""How far apart the hook and the transcript may report the same failure on a busy machine."""


class Faults:
    """Records each failed turn once, although its hook and the transcript both report it."""

    def __init__(self, config: Config, notices: Notices, providers: Mapping[str, Provider]) -> None:
        self._config = config
        self._notices = notices
        self._providers = providers
        self.followers: list[FaultFollower] = []

    async def record(
        self, tx: Transaction, session_id: str, fault: Fault, at: float, turn: str | None, source: Source
    ) -> bool:
        """Record that a turn failed at `at` (seconds since the epoch), and what follows. Returns False if it is known.

        `turn`: the agent CLI's id of the turn, or None if unknown.
        """
        session = tx.find(session_id)
        if session is None or session.exit is not None or not is_live(session.status):
            return False
        occasion = _occasion(source, turn or iso(at))
        for other in (Source.HOOK, Source.TRANSCRIPT):
            if await tx.mail.has_notice(session_id, _occasion(other, turn or iso(at))):
                return False
        if await _has_other_source_told(tx, session_id, fault, at, source):
            return False
        limit = await self._follow(tx, session, fault, at)
        if limit is not None:
            session = await tx.update(session, cut_off_at=iso(at))
        tries = retries_before(tx, session_id)
        limits = RetryLimits(self._config.retry.max, self._config.retry.backoff_s)
        pause_s = pause_before_retry_s(fault.kind, tries, limits)
        is_full = fault.kind is FaultKind.CONTEXT_FULL
        compacted = is_full and was_compacted(tx, session_id)
        command = self._compaction(session) if is_full and not compacted else None
        if command is not None:
            compact(tx, session, command)
            text = compaction_event(session, fault, at, command)
        elif pause_s is not None:
            retry = plan_retry(tx, session, tries + 1, limits.max, at, pause_s)
            text = retry_event(session, fault, at, retry)
        else:
            end_row(tx, session_id)
            text = fault_event(session, fault, at, tries, compacted=compacted)
        await self._notices.add_for_fault(
            tx,
            session,
            fault,
            at,
            occasion,
            limit=limit,
            told=command is not None or pause_s is not None or (limit is not None and not limit.is_news),
            retries=tries,
            compacted=compacted,
        )
        metadata = {
            "fault": fault.kind.value,
            "text": fault.text,
            "resets_at": None if fault.resets_at is None else iso(fault.resets_at),
            "model": fault.model or None,
        }
        await tx.event(EventType.WARNING, session, iso(at), text, metadata)
        if fault.kind is FaultKind.QUOTA:
            await tx.effect(EffectKind.CLOSE_DIALOG, session.id, {}, tx.now)
        return True

    def _compaction(self, session: Session) -> str | None:
        """The command that sm sends to a session whose context is full, or None if it sends none."""
        if self._config.on_context_full != "compact":
            return None
        command = self._providers[session.provider].compact
        return None if command is None else command.text

    async def _follow(self, tx: Transaction, session: Session, fault: Fault, at: float) -> MetLimit | None:
        for follower in self.followers:
            if (limit := await follower.follow_fault(tx, session, fault, at)) is not None:
                return limit
        return None


def _occasion(source: Source, turn: str) -> str:
    return f"{_OCCASION}{source.value}:{turn}"


async def _has_other_source_told(
    tx: Transaction, session_id: str, fault: Fault, at: float, source: Source
) -> bool:
    """True if another source has just reported the same failure.

    The ids of the turn cannot tell: a line of a transcript may name none, or the one of a command that the agent
    runs by itself. One source reports each failure once, so two reports of one source are two failures.
    """
    last = await tx.mail.last_notice(session_id, _OCCASION)
    if last is None or last.occasion.startswith(_occasion(source, "")):
        return False
    retried_at = last_retry_at(tx, session_id)
    if retried_at is not None and epoch_s(last.created_at) <= retried_at:
        return at <= retried_at  # a later failure is that of the retry
    return fault.name in last.text and later(last.created_at, _SAME_FAULT_S) >= tx.now
