"""Records the end of a session's process and updates its messages, requests, children and terminal."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sm.config import Config
from sm.core.effects import EffectKind
from sm.core.labels import label, short_label
from sm.core.lifecycle import is_live
from sm.core.models import Exit, Session, Signal, ancestors, is_between_processes, is_waiting, last_exit
from sm.core.next_process import RESTART, GiveUp, Restart
from sm.core.session_index import oldest_first
from sm.core.states import EventType, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import later
from sm.core.wording import subject
from sm.providers.base import Provider
from sm.state.losses import LOST_TOGETHER, LossCause
from sm.state.losses import plan_restore as plan_restore_of_cut_off
from sm.state.message_steps import return_messages
from sm.state.next_process import EndRule, crash_signal, plan_restart, why_ended
from sm.state.notices import Notices
from sm.state.pause_orders import end_by_kill, end_by_pause
from sm.state.request_steps import cancel_requests
from sm.state.session_steps import move
from sm.store import Transaction

log = logging.getLogger(__name__)


class Endings:
    def __init__(self, config: Config, notices: Notices, providers: Mapping[str, Provider]) -> None:
        self._config = config
        self._cleanup = config.child_agents.cleanup
        self._notices = notices
        self._providers = providers
        self.rules: list[EndRule] = []

    async def process_ended(
        self, tx: Transaction, session: Session, exit: Exit, screen: Sequence[str], reason: str | None = None
    ) -> None:
        """Record the end of the process. `screen` is the last content of the session's terminal.

        `reason`: why it ended, when that is known; it overrides the provider's.
        """
        provider = self._providers[session.provider]
        signal = provider.read_exit(exit, tx.now, screen=screen, session=session)
        if reason is not None:
            signal = replace(signal, reason=reason, cause=reason)
        await self._end(tx, session, signal, exit)

    async def terminal_lost(
        self, tx: Transaction, session: Session, cause: LossCause, reason: str, exit: Exit | None
    ) -> None:
        """Record the loss of the terminal. `exit` is None while the process may still run."""
        signal = Signal(SignalKind.TERMINAL_LOST, cause, reason, tx.now, exit)
        await self._end(tx, session, signal, exit)
        await plan_restore_of_cut_off(tx, self._config, tx.session(session.id))

    async def _end(self, tx: Transaction, session: Session, signal: Signal, exit: Exit | None) -> None:
        if exit is not None:  # first: a restart in the same transaction is ordered after it
            await tx.effect(EffectKind.INSPECT, session.id, {}, tx.now)
        kill = end_by_kill(tx, session.id)
        if kill is None and exit is not None and is_live(session.status):
            for rule in self.rules:
                if (ended := rule.after_order(tx, session, exit)) is not None:
                    ordered = Signal(SignalKind.RESTART_PLANNED, RESTART, ended.reason, tx.now, exit)
                    after = await self._restart(tx, session, ordered, ended.restart, ended.why)
                    await rule.follow_plan(tx, after, ended.restart)
                    return
        kill = kill or end_by_pause(tx, session.id)
        is_late = kill is not None and bool(
            kill.payload.get("gone")
        )  # the process had ended before the order
        if exit is not None and kill is not None and not is_late:
            reason = str(kill.payload.get("reason", "requested with sm kill"))
            signal = Signal(SignalKind.KILLED, EffectKind.KILL, reason, tx.now, exit)
        if exit is not None and not is_late:
            closed = signal.source == LossCause.TERMINAL
            for rule in self.rules:
                follow_up = rule.after_end(session, signal, exit, tx.now, tx.ran_s(session), closed=closed)
                if isinstance(follow_up, Restart):
                    crash = replace(signal, exit=exit)
                    planned, why = crash_signal(crash, follow_up), why_ended(crash)
                    after = await self._restart(tx, session, planned, follow_up, why)
                    await rule.follow_plan(tx, after, follow_up)
                    return
                if isinstance(follow_up, GiveUp):
                    signal = replace(signal, reason=f"{signal.reason}; {follow_up.reason}")
            if is_between_processes(session):
                exit = last_exit(session)
        after = await move(tx, self._notices, session.id, signal, exit=exit)
        if after.exit is None:
            return
        after = await _join_lost_parent(tx, session, after, signal)
        await self.process_gone(tx, after, signal)
        if after.token_hash is None:  # adopted: the terminal belongs to a person, who keeps using it
            await tx.effect(EffectKind.RELEASE, after.id, {"terminal": after.terminal}, tx.now)

    async def _restart(
        self, tx: Transaction, session: Session, planned: Signal, restart: Restart, why: str
    ) -> Session:
        """Record the end of a process that another one replaces. `why`: for its agent."""
        after = await move(
            tx,
            self._notices,
            session.id,
            planned,
            process=None,
            started_at=None,
            runs=session.runs + 1,
            restarts=restart.restarts,
        )
        await plan_restart(tx, self._notices, session, after, restart, why)
        return after

    async def start_failed(self, tx: Transaction, session_id: str, signal: Signal) -> None:
        """Record that the session will never have a process, or not again."""
        exit = last_exit(tx.session(session_id))
        await self.process_gone(tx, await move(tx, self._notices, session_id, signal, exit=exit))

    async def ended_without_process(self, tx: Transaction, before: Session, session: Session) -> Session:
        """Finish the end of a session that waited for its restart, so no end of a process will be reported.

        `before`: the session before its end.
        """
        if not is_waiting(before) or is_live(session.status):
            return session
        return await self.ended_unstarted(tx, session)

    async def ended_unstarted(self, tx: Transaction, session: Session) -> Session:
        """Finish the end of a session whose next process, or first one, will not start."""
        if session.exit is None:
            session = await tx.update(session, exit=last_exit(session))
            await self.process_gone(tx, session)
        return session

    async def process_gone(self, tx: Transaction, session: Session, signal: Signal | None = None) -> None:
        """Return the messages, cancel the requests, release the children and close the terminal.

        `signal`: how the process ended, or None if it has never run or ended before.
        """
        at = tx.now
        await return_messages(tx, self._notices, session)
        await cancel_requests(tx, session, at, f"session {short_label(session)} has ended")
        await self._release_children(tx, session, at, signal)
        is_archived = self._cleanup.auto_archive_transcript
        await self.archive(tx, session)
        if self._cleanup.close_tmux_session:
            payload = {**_terminal_of(session, at), "archived": is_archived}
            await tx.effect(EffectKind.CLOSE, session.id, payload, at)

    async def archive(self, tx: Transaction, session: Session) -> None:
        """Write the archive of a session, again if it has one, unless the configuration wants none."""
        if self._cleanup.auto_archive_transcript:
            await tx.effect(EffectKind.ARCHIVE, session.id, _terminal_of(session, tx.now), tx.now)

    async def clean_up_completed(self, tx: Transaction, session: Session) -> None:
        """Archive a completed session whose process lives, and kill the process, now or later, as `cleanup:` says."""
        done = session.status is Status.COMPLETED and session.exit is None
        if self._cleanup.auto_kill_on_complete and done:
            payload = {"force": False, "by": "cleanup.auto_kill_on_complete"}
            await tx.effect(EffectKind.KILL, session.id, payload, tx.now)  # its end is archived
        elif done:
            await self.archive(tx, session)
            if self._cleanup.reap_completed_after is not None:
                after_s = float(self._cleanup.reap_completed_after)
                facts = {"completed_at": session.completed_at}
                timer = Timer(
                    session.id, TimerKind.REAP, later(tx.now, after_s), within_s=after_s, data=facts
                )
                tx.timers.set(timer)

    async def _release_children(
        self, tx: Transaction, session: Session, at: str, signal: Signal | None
    ) -> None:
        """Give the children to an ancestor, or abandon them, as `on_parent_end` says.

        Children that end by the same loss keep their parent: both may be restored.
        """
        if self._config.child_agents.on_parent_end == "keep":
            return
        reason = f"the parent {short_label(session)} has ended"
        children = [s for s in tx.unfinished_sessions() if s.parent_id == session.id and s.exit is None]
        for child in sorted(children, key=oldest_first):
            if signal is not None and _shares_loss(session, child, signal):
                continue
            if self._config.child_agents.on_parent_end == "adopt":
                is_lost = signal is not None and _is_loss(session, signal)
                await _give_to_ancestor(tx, child, session, at, reason, is_lost=is_lost)
            elif is_live(child.status) and end_by_kill(tx, child.id) is None:  # else it ends as killed
                await tx.effect(EffectKind.INTERRUPT, child.id, {}, at)
                signal_of_child = Signal(SignalKind.PARENT_ENDED, "parent", reason, at)
                after = await move(tx, self._notices, child.id, signal_of_child)
                after = await self.ended_without_process(tx, child, after)
                if after.exit is None:
                    await self.archive(tx, after)

    async def rejoin(self, tx: Transaction, session: Session) -> Session:
        """Give a session that starts again its place in the tree: under its parent, above the children it lost.

        Without its parent it belongs to an ancestor, until the parent is restored too.
        """
        lost = tx.find(session.lost_parent)
        if lost is not None and lost.exit is None and not _is_above(tx, session, lost):
            session = await _put_back(tx, session, lost)
        parent = tx.find(session.parent_id)
        if (
            parent is not None
            and parent.exit is not None
            and self._config.child_agents.on_parent_end != "keep"
        ):
            reason = f"the parent {short_label(parent)} is not restored"
            session = await _give_to_ancestor(tx, session, parent, tx.now, reason, is_lost=True)
        left = [s for s in tx.unfinished_sessions() if s.lost_parent == session.id]
        for child in sorted(left, key=oldest_first):
            if not _is_above(tx, child, session):
                await self._notices.add_for_restored(tx, await _put_back(tx, child, session), None)
        return session


_ONE_BLOW_S = 15.0
"""How far apart the ends of two agents may be recorded whose container has ended."""


def _is_loss(session: Session, signal: Signal) -> bool:
    """True if the session ended with others: with the machine, the tmux server, or perhaps its container."""
    if signal.kind is SignalKind.TERMINAL_LOST:
        return signal.source in LOST_TOGETHER
    return signal.kind is SignalKind.CRASHED and session.effective_mode is TrustLevel.SANDBOXED


def _shares_loss(session: Session, child: Session, signal: Signal) -> bool:
    """True if the loss that ended the session ends the child too, whose end may be recorded later."""
    if signal.kind is not SignalKind.TERMINAL_LOST:
        return False
    match signal.source:
        case LossCause.SERVER:
            return True
        case LossCause.MACHINE:  # the child may have been restored since
            return None in (session.process, child.process) or _boot(child) == _boot(session)
        case LossCause.ENGINE:
            return child.effective_mode is TrustLevel.SANDBOXED
        case LossCause.CONTAINER:
            return child.effective_mode is TrustLevel.SANDBOXED and child.workspace == session.workspace
        case _:
            return False


def _boot(session: Session) -> str | None:
    return None if session.process is None else session.process.started.partition("/")[0]


async def _join_lost_parent(tx: Transaction, before: Session, session: Session, signal: Signal) -> Session:
    """Put an ended session back under the parent that ended just before by the same loss."""
    parent = tx.find(session.lost_parent)
    if parent is None or parent.exit is None or not _is_loss(before, signal):
        return session
    if parent.status is not Status.ERROR or later(parent.status_at, _ONE_BLOW_S) < tx.now:
        return session
    return session if _is_above(tx, session, parent) else await _put_back(tx, session, parent)


async def _put_back(tx: Transaction, child: Session, parent: Session) -> Session:
    bound_to = None if child.bound_to == parent.id else child.bound_to
    reason = f"both ended by one loss, or {short_label(parent)} was restored"
    return await set_parent(tx, child, parent.id, tx.now, reason, bound_to=bound_to)


async def _give_to_ancestor(
    tx: Transaction, child: Session, parent: Session, at: str, reason: str, *, is_lost: bool
) -> Session:
    """Move a child of an ended parent to an ancestor. `is_lost`: a restore of the parent takes the child back."""
    # The end of a parent must not free its children from what binds the parent, such as its budget.
    binds = any(part.binds(parent) for part in tx.parts)
    bound_to = child.bound_to or (parent.id if binds else None)
    lost_parent = child.lost_parent or (parent.id if is_lost else None)
    heir = _running_ancestor(tx, parent)
    return await set_parent(tx, child, heir, at, reason, bound_to=bound_to, lost_parent=lost_parent)


def _is_above(tx: Transaction, session: Session, other: Session) -> bool:
    """True if `session` is `other`, or an ancestor of it."""
    return session.id == other.id or any(a.id == session.id for a in ancestors(other, tx.find))


def _running_ancestor(tx: Transaction, session: Session) -> str | None:
    """The nearest ancestor whose process runs, or None for the operator."""
    return next((ancestor.id for ancestor in ancestors(session, tx.find) if ancestor.exit is None), None)


def _terminal_of(session: Session, at: str) -> dict[str, Any]:
    return {"terminal": session.terminal, "began": session.started_at or at}


async def set_parent(
    tx: Transaction,
    child: Session,
    parent_id: str | None,
    at: str,
    reason: str,
    *,
    bound_to: str | None = None,
    lost_parent: str | None = None,
) -> Session:
    """Give the session another parent, or the operator if None. `bound_to`, `lost_parent`: as in Session."""
    await tx.before_move(child)
    child = tx.session(child.id)
    after = await tx.update(child, parent_id=parent_id, bound_to=bound_to, lost_parent=lost_parent)
    for part in tx.parts:
        part.after_move(child, after)
    parent = tx.find(parent_id)
    owner = "the operator" if parent is None else label(parent)
    await tx.event(
        EventType.WARNING,
        after,
        at,
        f"{subject(after)} now belongs to {owner}: {reason}",
        {"parent_before": child.parent_id, "parent": parent_id},
    )
    return after
