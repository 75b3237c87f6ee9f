"""Pauses and resumes sessions. Functions of a transaction.

A pause does not change the status. `messaging.holds` holds the messages of a paused session, and the timers of turns
wait until it resumes.
"""

from collections.abc import Mapping
from dataclasses import replace

from sm.core.effects import EffectKind
from sm.core.lifecycle import is_ended
from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.pauses import GO_ON, Pause
from sm.core.states import EventType
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.core.wording import subject
from sm.providers.base import Provider
from sm.state.messages import send
from sm.state.warning_rows import after_move as follow_warnings
from sm.store import Transaction

LOOK_AGAIN_S = 5.0
"""An agent that still works after this time is interrupted again."""
PRESSES_MAX = 3
"""The key presses for one turn: a status that is wrong must not let sm press the key for ever."""


class Pauses:
    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers

    async def pause(
        self,
        tx: Transaction,
        session: Session,
        *,
        by: str,
        reason: str,
        until: str | None = None,
        within_s: float | None = None,
        soft: bool = False,
        budget: str | None = None,
    ) -> Session:
        """Pause a live session, or change the pause of a paused one.

        `budget`: the subject of the spent budget that pauses it. `within_s`: the seconds until `until`, if the pause
        has a duration and no end of the wall clock.
        """
        before = session.paused
        suspends = not self._providers[session.provider].has_turns
        pause = Pause(tx.now, by, reason, until, soft, suspends=suspends, budget=budget)
        if before is not None:
            pause = replace(pause, at=before.at, soft=soft and before.soft, cut_off=before.cut_off)
        after = await tx.update(session, paused=pause)
        await follow_warnings(tx, after)
        tx.timers.remove(session.id, TimerKind.RESUME)
        if until is not None:
            tx.timers.set(Timer(session.id, TimerKind.RESUME, until, within_s))
        if before is None:
            text = f"{subject(after)} paused - {folded(reason)}"
            metadata = {"by": by, "reason": reason, "until": until, "soft": soft}
            await tx.event(EventType.PAUSED, after, tx.now, text, metadata)
        if suspends:
            if not soft:
                await tx.effect(EffectKind.SUSPEND, after.id, {}, tx.now)
        elif after.status is Status.RUNNING and not soft:
            await interrupt(tx, after)
        return after

    async def resume(self, tx: Transaction, session: Session, by: str) -> Session:
        """End the pause of a session. An agent whose turn the pause has interrupted is told to go on."""
        pause = session.paused
        if pause is None:
            return session
        tx.timers.remove(session.id, TimerKind.RESUME, TimerKind.PAUSE)
        after = await tx.update(session, paused=None)
        await follow_warnings(tx, after)
        await tx.event(EventType.RESUMED, after, tx.now, f"{subject(after)} resumed", {"by": by})
        if pause.suspends:
            await tx.effect(EffectKind.CONTINUE, after.id, {}, tx.now)
        if pause.cut_off:
            send(tx, after.id, SM_ITSELF, GO_ON)
        return after


async def interrupt(tx: Transaction, session: Session, presses: int = 1) -> None:
    """Order the interrupt of a paused agent's turn, and another look at it. `presses`: with this one."""
    await tx.effect(EffectKind.INTERRUPT, session.id, {"pause": True}, tx.now)
    due_at, data = later(tx.now, LOOK_AGAIN_S), {"presses": presses}
    tx.timers.set(Timer(session.id, TimerKind.PAUSE, due_at, LOOK_AGAIN_S, data))


async def after_move(tx: Transaction, before: Status, session: Session) -> Session:
    """Follow a change of a paused session's status. Its end ends the pause; a turn that begins is interrupted."""
    pause = session.paused
    if pause is None:
        return session
    if is_ended(session.status):
        tx.timers.remove(session.id, TimerKind.RESUME, TimerKind.PAUSE)
        return await tx.update(session, paused=None)
    goes_on = pause.soft and before is Status.WAITING_INPUT  # the turn that was under way
    if session.status is Status.RUNNING and not pause.suspends and not goes_on:
        await interrupt(tx, session)
    return session
