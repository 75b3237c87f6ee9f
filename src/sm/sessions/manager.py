"""What every use case of sessions stands on: who may do it to which session, and the one way to a new status.

The use cases are in modules of their own; they and the manager decide and write. The outside world is touched by the
outbox after the commit and watched by the watcher; both come back here with what they found.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sm.core.effects import EffectKind
from sm.core.lifecycle import decide
from sm.core.messages import Notice
from sm.core.models import Caller, Exit, Process, Session, Signal
from sm.core.states import EventType, NoticeKind, SignalKind, Status
from sm.core.wording import moved, subject
from sm.errors import NotFound, NotPermitted, SmError
from sm.policy.access import Action, Relation, may, may_at_all
from sm.providers.base import Provider
from sm.sessions.tree import Family
from sm.state.endings import Endings
from sm.state.notices import Notices
from sm.state.quota import Counting
from sm.store import Effect, Open, Store, Transaction
from sm.store.audit import ALLOWED, REFUSED, Record

log = logging.getLogger(__name__)


class Lost(StrEnum):
    """Why a session has no terminal any more; the value is the source of the status."""

    TERMINAL = "terminal"
    """Somebody has closed it."""
    SERVER = "tmux server"
    """It went with all others."""
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Answer:
    """A session, and what the person should know besides."""

    session: Session
    warnings: tuple[str, ...] = ()


class Manager:
    """The sessions for whoever does something to them. Callers are identified by `server.py`, and `policy.py` is asked
    about them here.
    """

    def __init__(
        self,
        *,
        store: Store,
        providers: Mapping[str, Provider],
        notices: Notices,
        endings: Endings,
        counting: Counting,
        audit: Record,
        now: Callable[[], str],
    ) -> None:
        self._store = store
        self._providers = providers
        self.notices = notices
        self._endings = endings
        self.counting = counting
        self._audit = audit
        self.now = now

    # Who is asking, for whom

    @property
    def family(self) -> Family:
        return Family(self._store.sessions)

    def viewer(self, caller: Caller) -> Session | None:
        """The calling session; None for the operator. Raises NotPermitted for one that is no more."""
        if caller.session_id is None:
            return None
        session = self._store.sessions.get(caller.session_id)
        if session is None:
            raise NotPermitted(
                f"the calling session {caller.session_id} is not known here", "unset SM_SESSION_ID"
            )
        return session

    def find(self, caller: Caller, reference: str, action: Action = Action.SEE) -> Session:
        """The session that `reference` names, if `caller` may do `action` to it; the audit log has what was decided.

        Raises NotFound (also for what the caller may not see) and NotPermitted.
        """
        viewer = self.viewer(caller)
        if reference == "me":
            if viewer is None:
                raise NotFound("you are the operator, not a session", "name a session: sm all lists them")
            target = viewer
        else:
            try:
                target = self.family.find(viewer, reference)
            except NotFound as error:
                if viewer is not None:
                    raise self._refused(error, caller, action, reference, "no such session for it") from None
                raise
        standing = self.family.standing(viewer, target)
        related = None if viewer is None else f"to it: {standing.position}"
        if not may(standing, action):
            who = "the operator" if viewer is None else f"session {viewer.id}"
            refusal = NotPermitted(f"{who} may not {action} session {target.id}")
            raise self._refused(refusal, caller, action, target.id, related)
        if not _goes_without_saying(standing, action):
            self._audit(str(caller), action.name.lower(), target.id, ALLOWED, related)
        return target

    def allowed(
        self, caller: Caller, action: Action, sessions: Sequence[Session], family: Family
    ) -> list[Session]:
        """Those of the sessions that `caller` may do `action` to: of a tree, what it may not is left out.

        The audit log has each of them.
        """
        viewer = self.viewer(caller)
        may_be = [s for s in sessions if may(family.standing(viewer, s), action)]
        for session in may_be:
            self._audit(str(caller), action.name.lower(), session.id, ALLOWED, "with the tree above it")
        return may_be

    def require(
        self, caller: Caller, action: Action, target: str | None = None, detail: str | None = None
    ) -> None:
        """Raises NotPermitted unless `caller` may do `action`, one that is about no session.

        `target` and `detail` are for the audit log.
        """
        if not may_at_all(caller, action):
            refusal = NotPermitted(f"only the operator may {action}")
            raise self._refused(refusal, caller, action, target, detail)
        self._audit(str(caller), action.name.lower(), target, ALLOWED, detail)

    def _refused(
        self, error: SmError, caller: Caller, action: Action, target: str | None, reason: str | None
    ) -> SmError:
        self._audit(str(caller), action.name.lower(), target, REFUSED, reason)
        error.recorded = True
        return error

    def provider(self, session: Session) -> Provider:
        return self._providers[session.provider]

    # What the outbox found

    async def taken(self, effect: Effect) -> None:
        """The effect is about to happen, once; a crash from here on makes it a dead letter."""
        async with self._store.transaction() as tx:
            await tx.take(effect)

    async def finished(self, effect: Effect, *, dead: str | None = None) -> None:
        """The effect is done, or given up for the reason `dead`, which the session's events then tell."""
        async with self._store.transaction() as tx:
            await tx.finish(effect, dead=dead)
            session = tx.find(effect.session_id)
            if dead and session is not None:
                await tx.event(EventType.WARNING, session, tx.now, f"{subject(session)} - {dead}", {})

    # What the watcher found

    def has_process(self, session_id: str, process: Process | None) -> bool:
        """Whether that is the session's process, whose end is not known yet.

        None: it had ended before anybody saw it. A restored session has another one than before.
        """
        session = self._store.sessions.get(session_id)
        return session is not None and _is_process_of(session, process, self._store.mail.open)

    async def process_ended(
        self, session_id: str, process: Process | None, exit: Exit, screen: Sequence[str] = ()
    ) -> None:
        """A process of the session is gone, and `exit` is how; `screen` is what its terminal showed last.

        What is not about the process that the session has now (`has_process`) changes nothing.
        """
        await self._process_gone(session_id, process, exit, None, screen)

    async def terminal_lost(
        self, session_id: str, process: Process | None, lost: Lost, reason: str, *, process_gone: bool
    ) -> None:
        """The terminal is gone, and with it the knowledge of how the process ended or will end; as `process_ended`."""
        await self._process_gone(session_id, process, Exit() if process_gone else None, (lost, reason))

    async def _process_gone(
        self,
        session_id: str,
        process: Process | None,
        exit: Exit | None,
        lost: tuple[Lost, str] | None,
        screen: Sequence[str] = (),
    ) -> None:
        at = self.now()
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            if not _is_process_of(session, process, tx.mail.open):
                return  # told already (an ending is counted once per opening), or late: restored since
            if exit is not None and tx.has_open(EffectKind.KILL, session_id):
                signal = Signal(SignalKind.KILLED, EffectKind.KILL, "asked for with sm kill", at, exit)
            elif lost is not None or exit is None:
                source, reason = lost or (Lost.TERMINAL, "its terminal is gone")
                signal = Signal(SignalKind.TERMINAL_LOST, source, reason, at, exit)
            else:
                provider = self._providers[session.provider]
                signal = provider.read_exit(exit, at, screen=screen, session=session)
            after = await self.move(tx, session_id, signal, exit=exit)
            if after.exit is not None:
                await self._endings.process_gone(tx, after, self.move)
                if (
                    after.token_hash is None
                ):  # adopted: what comes next in a person's own terminal is none of ours
                    await tx.effect(EffectKind.RELEASE, after.id, {"terminal": after.terminal}, at)

    # What need not be told

    async def acknowledge_endings(self, caller: Caller, session_ids: Collection[str]) -> None:
        """The caller knows of these endings, because it was answered so: it need not be told again."""

        def told(open: Open) -> list[Notice]:
            return [
                n
                for n in open.notices.values()
                if n.kind is NoticeKind.ENDING
                and n.recipient == caller.session_id
                and n.session_id in session_ids
            ]

        if told(self._store.mail.open):
            async with self._store.transaction() as tx:
                tx.mail.settle_notices(told(tx.mail.open), "heard")

    # The one way to a new status

    async def observe(self, session_id: str, signal: Signal) -> None:
        async with self._store.transaction() as tx:
            await self.move(tx, session_id, signal)

    async def move(self, tx: Transaction, session_id: str, signal: Signal, **facts: Any) -> Session:
        """Let `signal` do what lifecycle.decide says; `facts` are recorded even when it changes no status."""
        before = tx.session(session_id)
        decision = decide(before.status, signal)
        context = {"sm_session": session_id, "sm_signal": signal.kind.value, "sm_from": before.status.value}
        if decision is None:
            log.debug("dropped a signal that changes nothing", extra=context)
            return await tx.update(before, **facts)
        if decision.after is Status.ERROR and signal.message is None:
            facts["completion_message"] = signal.reason
        after = await tx.apply(before, decision, **facts)
        log.info("moved a session", extra={**context, "sm_to": after.status.value})
        await self.notices.of_move(tx, after, decision)
        if decision.event is not None:
            metadata: dict[str, Any] = {"source": signal.source, "reason": signal.reason}
            if signal.exit is not None:
                metadata |= {"exit_code": signal.exit.code, "exit_signal": signal.exit.signal}
            if signal.message is not None:
                metadata["completion_message"] = signal.message
            await tx.event(
                decision.event, after, signal.emitted_at, moved(before, signal, decision.event), metadata
            )
        return after


def _goes_without_saying(standing: Relation, action: Action) -> bool:
    """Whether an allowed action is not recorded: what a session does to itself, and what is asked for all the time."""
    polled = action is Action.SEE or (standing.is_operator and action is Action.READ)
    return polled or standing.is_self


def _is_process_of(session: Session, process: Process | None, open: Open) -> bool:
    """See `Manager.has_process`."""
    if session.exit is not None or session.process != process:
        return False
    # None in both: one that is being started has no process yet, and so cannot have lost it.
    starting = any(e.kind == EffectKind.START and e.session_id == session.id for e in open.effects.values())
    return process is not None or not starting
