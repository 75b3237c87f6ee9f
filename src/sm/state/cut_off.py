"""Plans the restore of a sandboxed session that the container engine or the machine cut off.

Functions of a transaction. The timer of the session is the plan: it is written with the end of the session, so no
crash of the daemon loses it. It also remembers the losses of the last ten minutes.
"""

from dataclasses import replace

from sm.config import Config, sandbox_for
from sm.core.models import Session
from sm.core.states import EventType, TrustLevel
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import epoch_s, later
from sm.core.wording import subject
from sm.errors import SandboxUnavailable
from sm.state.loss_causes import LossCause
from sm.store import Transaction

RESTORES_MAX = 3
WITHIN_S = 600.0
_CAUSES = (LossCause.ENGINE, LossCause.MACHINE)


def is_cut_off(session: Session | None) -> bool:
    """True if the session ended with the engine or the machine, and nobody has done anything about it."""
    return (
        session is not None
        and session.effective_mode is TrustLevel.SANDBOXED
        and session.status is Status.ERROR
        and session.status_source in _CAUSES
        and session.exit is not None
        and not session.archived
    )


def is_planned(timer: Timer) -> bool:
    return timer.kind == TimerKind.CUT_OFF and bool(timer.data.get("open"))


async def plan_restore(tx: Transaction, config: Config, session: Session) -> None:
    """Plan the restore of a session whose end was recorded, if the configuration says so."""
    if not is_cut_off(session) or not _is_wanted(tx, config, session):
        return
    last, now_s = tx.timers.find(session.id, TimerKind.CUT_OFF), epoch_s(tx.now)
    before = () if last is None else last.data["losses"]
    losses = [at for at in before if now_s - epoch_s(at) < WITHIN_S]
    is_open = len(losses) < RESTORES_MAX
    data = {"losses": [*losses, tx.now][-RESTORES_MAX:], "open": is_open}
    tx.timers.set(Timer(session.id, TimerKind.CUT_OFF, later(tx.now, WITHIN_S), WITHIN_S, data))
    if not is_open:
        await warn_not_restored(tx, session, f"{RESTORES_MAX} restores in {WITHIN_S / 60:.0f} minutes")


def close_plan(tx: Transaction, timer: Timer) -> bool:
    """Note that the restore was carried out or given up. Returns False if it was cut off again since."""
    if tx.timers.find(timer.subject, timer.kind) != timer:
        return False
    tx.timers.set(replace(timer, data={**timer.data, "open": False}))
    return True


async def warn_not_restored(tx: Transaction, session: Session, reason: str) -> None:
    words = f"{subject(session)} - not restored after its terminal was lost: {reason}"
    await tx.event(EventType.WARNING, session, tx.now, words, {})


def _is_wanted(tx: Transaction, config: Config, session: Session) -> bool:
    workspace = None if session.workspace is None else tx.workspace(session.workspace)
    try:
        settings = sandbox_for(config, workspace)
    except SandboxUnavailable:  # an override that is no longer valid
        settings = config.sandbox
    return settings.on_engine_restart == "restore"
