"""The losses of terminals: their causes, the sessions that one ended together, and the restore that may follow.

Functions of a transaction. The timer of a session that was cut off is the plan of its restore: it is written with the
end of the session, so no crash of the daemon loses it. It also remembers the losses of the last ten minutes.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Final

from sm.config import Config, sandbox_for
from sm.core.lifecycle import is_ended
from sm.core.models import Session, ancestors
from sm.core.states import EventType, TrustLevel
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import epoch_s, later
from sm.core.wording import subject
from sm.errors import SandboxUnavailable
from sm.store import Transaction

RESTORES_MAX = 3
WITHIN_S = 600.0


class LossCause(StrEnum):
    """The cause of the loss of a terminal. The value is the source of the status."""

    TERMINAL = "terminal"
    """A person or a program closed the terminal."""
    SERVER = "tmux server"
    """The tmux server ended, and with it all terminals."""
    MACHINE = "machine"
    """The machine restarted."""
    ENGINE = "container engine"
    """The container engine closed the connection to a live agent, for example because it restarted."""
    CONTAINER = "container"
    """The container ended without an order of sm, and with it all its agents."""


LOST_TOGETHER: Final = frozenset({LossCause.SERVER, LossCause.MACHINE, LossCause.ENGINE, LossCause.CONTAINER})
"""The losses that end several sessions by one blow."""
TERMINAL_CLOSED = (LossCause.TERMINAL, "the terminal was closed")
CUT_OFF = (
    LossCause.ENGINE,
    "the container engine closed the connection to the agent's terminal, so sm ended the agent",
)
ENGINE_GONE = (LossCause.ENGINE, "the container engine ended or restarted, and the agent with it")
SERVER_GONE = (LossCause.SERVER, "the tmux server has ended")
CONTAINER_GONE = (LossCause.CONTAINER, "the container ended, and the agent with it")


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


def was_lost(session: Session) -> bool:
    """True if the session ended with the machine, the tmux server, the container engine or its container."""
    return session.status is Status.ERROR and session.status_source in LOST_TOGETHER


async def lost_together(tx: Transaction, since: str = "") -> list[Session]:
    """Return the sessions that such losses ended after that time, without archived ones."""
    failed = await tx.select("status = 'error' AND ended = 1 AND archived = 0 AND status_at >= ?", since)
    return [session for session in failed if was_lost(session)]


async def left_behind(tx: Transaction, session: Session) -> list[Session]:
    """Return the descendants that ended by the loss that ended `session` and stay ended, nearest first.

    Without archived ones, and those that the daemon restores. `session`: before its restore.
    """
    if not was_lost(session):
        return []
    lost = await lost_together(tx, session.started_at or "")
    found = [s for s in lost if _ended_with(s, session) and not _is_restored(tx, s)]
    depths = {s.id: [a.id for a in ancestors(s, tx.find)] for s in found}
    below = [s for s in found if session.id in depths[s.id]]
    return sorted(below, key=lambda s: (depths[s.id].index(session.id), s.created_at, s.id))


def _ended_with(other: Session, session: Session) -> bool:
    """True if the loss that ended `session` ended the other one too.

    Such a loss ends `session` with each session that it ends, so the loss is the only one of that kind in its run.
    Only containers of other workspaces end without it.
    """
    is_lost = is_ended(other.status) and was_lost(other) and other.exit is not None and not other.archived
    is_same = other.status_source == session.status_source and other.id != session.id
    if session.status_source == LossCause.CONTAINER and other.workspace != session.workspace:
        return False
    return is_lost and is_same and other.status_at >= (session.started_at or "")


def _is_restored(tx: Transaction, session: Session) -> bool:
    timer = tx.timers.find(session.id, TimerKind.CUT_OFF)
    return timer is not None and is_planned(timer)
