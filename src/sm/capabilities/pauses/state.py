"""Pauses and resumes sessions, and follows what a paused session still spends. Functions of a transaction.

A pause does not change the status. `messaging.holds` holds the messages of a paused session, and the timers of turns
wait until it resumes.

An order is not its effect: until sm has seen that a session spends nothing, its pause is `pausing`. A timer looks again
and again, so that a restart of the daemon ends no look. `rules` decides on what was seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sm.capabilities.pauses.rules import (
    ENDED_BY_PAUSE,
    FROZEN_LOOK_S,
    LOOK_S,
    SOFT_LOOK_S,
    PauseStep,
    PauseTimer,
    Seen,
    after_look,
)
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_ended
from sm.core.messages import SM_ITSELF
from sm.core.models import Session, is_waiting
from sm.core.pause_states import Held, spending_words
from sm.core.pauses import GO_ON, Pause, PauseOrder
from sm.core.states import EventType, NoticeKind
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.core.usage import Usage
from sm.core.wording import notice_subject, subject
from sm.providers.base import Provider
from sm.state.followers import UsageFollower
from sm.state.message_steps import send
from sm.state.notices import Notices, notice_recipient
from sm.state.pause_orders import end_by_pause
from sm.store import Transaction
from sm.store.transaction import SessionFollower

_RESTARTS = "; sm resume starts it again with its conversation"
_UNTIL_SEEN = ("its turn",)
"""The activity that spends before the first look at a session that works."""


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


class Pauses(SessionFollower, UsageFollower):
    """Carries out orders to pause and to resume, and stops what a paused session still spends."""

    def __init__(self, notices: Notices, providers: Mapping[str, Provider]) -> None:
        self._notices = notices
        self._providers = providers

    async def pause(self, tx: Transaction, session: Session, order: PauseOrder) -> None:
        before, soft, until = session.paused, order.soft, order.until
        suspends = not self._providers[session.provider].has_turns
        given: dict[str, Any] = {
            "by": order.by,
            "reason": order.reason,
            "hold": order.hold,
            "account": order.account,
        }
        pause = Pause(at=tx.now, until=until, soft=soft, suspends=suspends, **given)
        is_order = before is None or (before.soft and not soft)
        if before is not None:
            kept = before if not is_order else replace(before, settled_at=None, held=None, ordered_at=tx.now)
            pause = replace(kept, until=until, soft=soft and before.soft, suspends=suspends, **given)
        after = await tx.update(session, paused=pause)
        for follower in tx.followers:
            await follower.follow_status(tx, after)
        tx.timers.remove(session.id, PauseTimer.RESUME)
        if until is not None:
            tx.timers.set(Timer(session.id, PauseTimer.RESUME, until, order.within_s))
        if before is None:
            text = f"{subject(after)} paused - {folded(order.reason)}"
            metadata = {"by": order.by, "reason": order.reason, "until": until, "soft": soft}
            await tx.event(EventType.PAUSED, after, tx.now, text, metadata)
        if suspends:
            if not soft:
                await tx.effect(EffectKind.SUSPEND, after.id, {}, tx.now)
        elif after.status is Status.RUNNING and not soft and (is_order or pause.settled_at is None):
            after = await interrupt(tx, await tx.update(after, paused=replace(pause, spends=_UNTIL_SEEN)))
        if is_order or pause.settled_at is None:  # a pause of an older version has no looks yet
            look(tx, after, 0.0)

    async def resume(self, tx: Transaction, session: Session, by: str) -> None:
        """End the pause of a session. An agent whose turn the pause has interrupted is told to go on."""
        pause = session.paused
        if pause is None:
            return
        tx.timers.remove(session.id, PauseTimer.RESUME, PauseTimer.PAUSE)
        after = await tx.update(session, paused=None)
        for follower in tx.followers:
            await follower.follow_status(tx, after)
        is_ending = session.process is None or end_by_pause(tx, session.id) is not None
        starts_again = is_waiting(session) or end_by_pause(tx, session.id) is not None
        held = Held.ENDED if starts_again else Held.FROZEN if pause.held == Held.FROZEN else None
        text = resumed_event(after, held)
        await tx.event(EventType.RESUMED, after, tx.now, text, {"by": by, "held": held})
        if pause.suspends or pause.held == Held.FROZEN or tx.has_open(EffectKind.SUSPEND, after.id):
            await tx.effect(EffectKind.CONTINUE, after.id, {}, tx.now)
        if (
            pause.cut_off and pause.held != Held.ENDED and not is_ending
        ):  # the restart of its process tells it
            send(tx, after.id, SM_ITSELF, GO_ON)

    async def settle_status(self, tx: Transaction, before: Status, session: Session) -> Session:
        """Follow a change of a paused session's status. Its end ends the pause; a turn that begins is interrupted."""
        pause = session.paused
        if pause is None:
            return session
        if is_ended(session.status):
            tx.timers.remove(session.id, PauseTimer.RESUME, PauseTimer.PAUSE)
            return await tx.update(session, paused=None)
        goes_on = pause.soft and before is Status.WAITING_INPUT  # the turn that was under way
        if session.status is Status.RUNNING and not pause.suspends and not goes_on:
            begun = replace(
                pause,
                settled_at=None,
                held=None,
                quiet_since=None,
                ordered_at=tx.now,
                presses=0,
                spends=_UNTIL_SEEN,
            )
            session = await interrupt(tx, await tx.update(session, paused=begun))
            look(tx, session, LOOK_S)
        return session

    # What it still spends

    async def follow_look(self, tx: Transaction, session: Session, seen: Seen) -> Session:
        """Carry out what a look at a paused session asks for, and set the timer of the next one."""
        pause = session.paused
        if pause is None or is_ended(session.status):
            return session
        step, pause = after_look(pause, seen, tx.now)
        after = session if pause == session.paused else await tx.update(session, paused=pause)
        if pause.held == Held.FROZEN and session.paused is not None and session.paused.held != Held.FROZEN:
            await record_held(tx, after, Held.FROZEN, session.paused.spends)
        match step:
            case PauseStep.PRESS:
                after = await interrupt(tx, after)
            case PauseStep.FORCE if not tx.has_open(EffectKind.SUSPEND, after.id) and not tx.has_open(
                EffectKind.KILL, after.id
            ):
                await tx.effect(EffectKind.SUSPEND, after.id, {"force": True}, tx.now)
            case _:
                pass
        if seen.goes_on_after(pause, tx.now):
            after = await self._tell(tx, after)
        if pause.settled_at is None:
            look(tx, after, SOFT_LOOK_S if pause.soft else LOOK_S)
        elif pause.held == Held.FROZEN:
            look(tx, after, FROZEN_LOOK_S)
        return after

    async def follow_usage(
        self,
        tx: Transaction,
        session: Session,
        usages: Sequence[Usage],
        stored: Mapping[str, Usage] | None = None,
    ) -> None:
        """Follow usage that the transaction is about to store: a settled session that spends is stopped anew."""
        pause = session.paused
        if pause is None or pause.soft or not usages:
            return
        newest = min(max(used.at for used in usages), tx.now)  # the agent has written the times
        if newest <= (pause.settled_at or pause.at):
            return  # from before, and read late
        if pause.settled_at is None:
            await tx.update(session, paused=replace(pause, used_at=tx.now))
            return
        again = replace(
            pause,
            settled_at=None,
            held=None,
            quiet_since=None,
            used_at=tx.now,
            ordered_at=tx.now,
            presses=0,
            spends=(),
        )
        after = await self._tell(tx, await tx.update(session, paused=again))
        if after.status is Status.RUNNING and not pause.suspends:
            after = await interrupt(tx, after)
        look(tx, after, LOOK_S)

    async def settle(self, tx: Transaction, session: Session, held: Held) -> None:
        """Note that the session was seen to spend nothing."""
        if session.paused is not None:
            settled = replace(session.paused, settled_at=tx.now, held=held, spends=())
            after = await tx.update(session, paused=settled)
            if session.paused.held != held:
                await record_held(tx, after, held, session.paused.spends)
            tx.timers.remove(session.id, PauseTimer.PAUSE)
            if held is Held.FROZEN:
                look(tx, after, FROZEN_LOOK_S)

    async def end_process(self, tx: Transaction, session: Session) -> str | None:
        """Order the end of a paused agent's process, which the end of the pause starts again in its conversation.

        Returns the reason why that is not possible.
        """
        if session.conversation is None or not self._providers[session.provider].has_turns:
            return "it has no conversation in which it could go on"
        if session.token_hash is None:
            return "it was adopted, so its process belongs to a person"
        if session.process is not None and not tx.has_open(EffectKind.KILL, session.id):
            payload: dict[str, object] = {
                "force": False,
                "by": SM_ITSELF,
                "reason": ENDED_BY_PAUSE,
                "pause": True,
            }
            payload["spends"] = [] if session.paused is None else list(session.paused.spends)
            await tx.effect(EffectKind.KILL, session.id, payload, tx.now)
        return None

    async def _tell(self, tx: Transaction, session: Session) -> Session:
        """Tell parent and operator that a session spends after the order to pause: once for the pause."""
        pause = session.paused
        if pause is None or pause.told:
            return session
        after = await tx.update(session, paused=replace(pause, told=True))
        metadata = {"paused": pause.at, "spends": list(pause.spends)}
        await tx.event(EventType.WARNING, after, tx.now, paused_spends_event(after, pause), metadata)
        recipient, occasion = notice_recipient(tx, after), f"paused-spends:{pause.at}"
        text, kind = paused_spends_notice(after, pause), NoticeKind.WARNING
        if recipient is not None:
            await self._notices.add(tx, after, recipient, kind, occasion, text, None)
        await self._notices.add(tx, after, None, kind, f"{occasion}/operator", text, EventType.WARNING)
        return after


async def record_held(tx: Transaction, session: Session, held: Held, spends: Sequence[str]) -> None:
    """Record that the pause of a session has frozen its processes or ended its process."""
    metadata = {"held": held, "spends": list(spends)}
    await tx.event(EventType.PAUSED, session, tx.now, held_event(session, held, spends), metadata)


def look(tx: Transaction, session: Session, after_s: float) -> None:
    """Set the timer of the next look at what a paused session spends."""
    tx.timers.set(Timer(session.id, PauseTimer.PAUSE, later(tx.now, after_s), after_s))


async def look_first(tx: Transaction, session: Session) -> None:
    """Set the timer of the first look at a session that was paused without one, and stop it anew if it spends."""
    if session.paused is not None and not is_ended(session.status):
        ordered = replace(session.paused, ordered_at=tx.now, presses=0)
        look(tx, await tx.update(session, paused=ordered), 0.0)


async def interrupt(tx: Transaction, session: Session) -> Session:
    """Order the interrupt of all work of a paused agent."""
    await tx.effect(EffectKind.INTERRUPT, session.id, {"pause": True}, tx.now)
    if session.paused is None:
        return session
    return await tx.update(session, paused=replace(session.paused, presses=session.paused.presses + 1))
