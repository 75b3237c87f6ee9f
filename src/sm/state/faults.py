"""Records failed turns: the event, the notices, and the effect that closes the dialog of a usage limit."""

from sm.core.effects import EffectKind
from sm.core.faults import Fault, FaultKind
from sm.core.lifecycle import is_live
from sm.core.states import EventType
from sm.core.timestamps import iso
from sm.core.wording import fault_event
from sm.state.notices import Notices
from sm.store import Transaction


async def record_fault(
    tx: Transaction, notices: Notices, session_id: str, fault: Fault, at: float, turn: str | None
) -> bool:
    """Record that a turn failed at `at` (seconds since the epoch), once for each turn. False: it is known.

    `turn`: the agent CLI's id of the turn; None: unknown.
    """
    session = tx.find(session_id)
    if session is None or session.exit is not None or not is_live(session.status):
        return False
    if not await notices.add_for_fault(tx, session, fault, at, f"fault:{turn or iso(at)}"):
        return False
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
