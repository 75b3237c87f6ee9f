"""Records failed turns: the event, the notices, the park of the account, and the effect that closes its dialog."""

from sm.core.effects import EffectKind
from sm.core.faults import Fault, FaultKind
from sm.core.lifecycle import is_live
from sm.core.states import EventType
from sm.core.timestamps import iso, later
from sm.core.wording import fault_event
from sm.state.accounts import park_account, roots_of
from sm.state.notices import Notices
from sm.store import Transaction

_OCCASION = "fault:"
_SAME_FAULT_S = 10.0
"""How far apart the hook and the transcript may report the same failure on a busy machine."""


async def record_fault(
    tx: Transaction, notices: Notices, session_id: str, fault: Fault, at: float, turn: str | None
) -> bool:
    """Record that a turn failed at `at` (seconds since the epoch), once for each turn. False: it is known.

    `turn`: the agent CLI's id of the turn; None: unknown.
    """
    session, occasion = tx.find(session_id), f"{_OCCASION}{turn or iso(at)}"
    if session is None or session.exit is not None or not is_live(session.status):
        return False
    if await tx.mail.has_notice(session_id, occasion) or await _is_known(tx, session_id, turn, fault):
        return False
    change = park_account(tx, session, fault, at)
    account = None if change is None else session.account
    if change is not None:
        session = await tx.update(session, cut_off_at=iso(at))
    await notices.add_for_fault(
        tx,
        session,
        fault,
        at,
        occasion,
        account=account,
        roots=roots_of(tx, account),
        told=change is not None and not change.is_news,
    )
    metadata = {
        "fault": fault.kind.value,
        "text": fault.text,
        "resets_at": None if fault.resets_at is None else iso(fault.resets_at),
        "model": fault.model or None,
    }
    await tx.event(EventType.WARNING, session, iso(at), fault_event(session, fault, at), metadata)
    if fault.kind is FaultKind.QUOTA:
        await tx.effect(EffectKind.CLOSE_DIALOG, session.id, {"at": iso(at)}, tx.now)
    return True


async def _is_known(tx: Transaction, session_id: str, turn: str | None, fault: Fault) -> bool:
    """True if another source has just reported the same failure.

    A line of a transcript may not name its turn, or may name the one of a command that the agent runs by itself.
    """
    last = await tx.mail.last_notice(session_id, _OCCASION)
    if last is None:
        return False
    named = last.occasion.removeprefix(_OCCASION)[10:11] != "T"  # not a time
    return (turn is None or not named or fault.name in last.text) and later(
        last.created_at, _SAME_FAULT_S
    ) >= tx.now
