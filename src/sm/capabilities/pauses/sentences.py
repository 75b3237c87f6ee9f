"""The sentences of events and notices about pauses. Pure."""

from collections.abc import Sequence

from sm.core.models import Session
from sm.core.pause_states import Held, spending_words
from sm.core.pauses import Pause
from sm.core.text import folded
from sm.core.wording import notice_subject, subject

_RESTARTS = "; sm resume starts it again with its conversation"


def paused_spends_event(session: Session, pause: Pause) -> str:
    """Text of the event for a session that spends after the order to pause."""
    return f"{subject(session)} was paused, and {spending_words(pause.spends or ('something',))}"


def held_event(session: Session, held: Held, spends: Sequence[str]) -> str:
    """Text of the event for a session that its pause has frozen or ended. `spends`: what nothing else has stopped."""
    did = "froze its processes" if held is Held.FROZEN else "ended its process"
    why = f", because nothing else stopped {' and '.join(spends)}" if spends else ""
    then = (
        "" if session.paused is None else "; sm resume lets them go on" if held is Held.FROZEN else _RESTARTS
    )
    return f"{subject(session)}: its pause {did}{why}{then}"


def resumed_event(session: Session, held: Held | None) -> str:
    """Text of the event for the end of a pause. `held`: the means that kept the session from spending."""
    then = {
        Held.FROZEN: ": its frozen processes go on",
        Held.ENDED: ": it is started again with its conversation",
    }
    return f"{subject(session)} resumed{then.get(held, '') if held else ''}"


def paused_spends_notice(session: Session, pause: Pause) -> str:
    """Entry of a notice about a session that spends after the order to pause, with the command to type."""
    words = spending_words(pause.spends or ("something",))
    return (
        f"{notice_subject(session)} was paused {folded(pause.reason, 100)!r}, and {words}; sm tries on; "
        f"look with: sm status {session.id}; end it with: sm kill {session.id}"
    )
