"""Compacts the conversation of a session whose context is full, once. Functions of a transaction.

The timer COMPACTED remembers it until a turn succeeds: a context that is full again before that is only reported.
"""

from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.states import MessageMode
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import epoch_s, later
from sm.state.message_steps import send
from sm.store import Open, Transaction

GO_ON = "The conversation was too long, so it was replaced by a summary. Go on with your work."
_ONCE_IN_S = 3600.0


def was_compacted(tx: Transaction, session_id: str) -> bool:
    """True if sm has sent the command, and no turn has succeeded since."""
    return tx.timers.find(session_id, TimerKind.COMPACTED) is not None


def is_compacting(open: Open, session_id: str) -> bool:
    """True while the command of sm waits, or is being typed."""
    return any(
        (m.session_id, m.sender, m.mode) == (session_id, SM_ITSELF, MessageMode.COMMAND)
        for m in open.messages.values()
    )


def compact(tx: Transaction, session: Session, command: str) -> None:
    """Send the command, and a message to go on when the agent is idle again.

    If the command fails, the turn of that message fails too, and is reported. If the command ends unconfirmed,
    `state/message_steps.py` withdraws that message and reports it.
    """
    sent = send(tx, session.id, SM_ITSELF, command, MessageMode.COMMAND)
    go_on = send(tx, session.id, SM_ITSELF, GO_ON, MessageMode.IDLE)
    data = {"sent_at": epoch_s(tx.now), "command": sent, "go_on": go_on}
    tx.timers.set(Timer(session.id, TimerKind.COMPACTED, later(tx.now, _ONCE_IN_S), _ONCE_IN_S, data))


def turn_succeeded(tx: Transaction, session_id: str, at: float) -> None:
    """Forget the compaction if the turn that succeeded at `at` came after it."""
    last = tx.timers.find(session_id, TimerKind.COMPACTED)
    if last is not None and float(last.data["sent_at"]) < at:
        tx.timers.remove(session_id, TimerKind.COMPACTED)
