"""Pauses and resumes sessions: one, or a tree; and those whose time has come."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Caller, RequestKey, Session
from sm.core.pause_states import Held, PauseState
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.core.text import NOTE_MAX, folded, validate_text
from sm.core.timers import Timer, TimerKind
from sm.core.timestamps import epoch_s, iso, later
from sm.errors import IllegalState, NotPermitted, SmError, StorageFull, UsageError
from sm.policy.access import Action
from sm.policy.pauses import Seen
from sm.sessions.manager import Manager
from sm.state.part_holds import leave_to_hold, resume_refusal
from sm.state.pauses import look_first
from sm.store import Store, Transaction

log = logging.getLogger(__name__)

WAIT_S = 10.0
WAIT_MAX_S = 3600.0
_LONGEST_S = 366 * 86_400.0
PROGRAM_RUNS = (
    "its program keeps running, because tmux continues it; the processes that it started are stopped"
)


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """How to pause. At most one of `for_s` and `until` is set."""

    tree: bool = False
    soft: bool = False
    for_s: float | None = None
    until: str | None = None
    """ISO 8601 with a time zone."""
    reason: str | None = None
    wait_s: float = WAIT_S
    """How long to wait until nothing spends any more."""


@dataclass(frozen=True, slots=True)
class PauseResult:
    """The sessions of a pause or of its end, the named one first if it is among them."""

    sessions: Sequence[Session]
    working: Sequence[str] = ()
    """The ids of sessions that may still spend."""
    warnings: Sequence[str] = ()


class Sight(Protocol):
    """Looks at the agents themselves."""

    async def is_frozen(self, session: Session) -> bool:
        """True if the session's cgroup says that its process and all others in it are frozen."""

    async def works(self, session_id: str) -> bool | None:
        """The agent's own report now: a turn or a background agent runs. None: there is none."""

    def background_agents(self, session_id: str) -> int:
        """The number of its background agents that were seen at work lately."""


class Pausing:
    """Use cases of pauses, within the permissions of the caller."""

    def __init__(self, store: Store, manager: Manager, sight: Sight) -> None:
        self._store = store
        self._manager = manager
        self._sight = sight

    async def pause(
        self, caller: Caller, reference: str, wanted: PauseRequest, key: RequestKey | None
    ) -> PauseResult:
        """Pause a session, with `tree` also its live descendants; return when they spend nothing, or the wait is over.

        Changes the end and the reason of a pause that has begun already, unless only others may end it. Raises
        IllegalState if no session of these is live, NotPermitted for a pause of others, and UsageError for an end in
        the past.
        """
        session = self._manager.find(caller, reference, Action.PAUSE)
        reason = "paused by " + ("the operator" if caller.mailbox is None else str(caller))
        if wanted.reason is not None and wanted.reason.strip():
            reason = validate_text(wanted.reason, "reason", NOTE_MAX, one_line=True).strip()
        until = _end_of(wanted, self._manager.now())
        kept: dict[str, SmError] = {}
        async with self._store.transaction(caller, key) as tx:
            members = [
                s for s in await self._members(tx, caller, session, tree=wanted.tree) if is_live(s.status)
            ]
            if tx.replayed is None:
                if not members:
                    now = tx.session(session.id)
                    raise IllegalState(
                        f"session {short_label(now)} has ended ({now.status}): it cannot be paused"
                    )
                kept = await self._of_others(tx, caller, members)
                members = [member for member in members if member.id not in kept]
                if not members:
                    raise next(iter(kept.values()))
                for member in members:
                    await self._manager.pauses.pause(
                        tx,
                        member,
                        by=caller.name,
                        reason=reason,
                        until=until,
                        within_s=wanted.for_s,
                        soft=wanted.soft,
                    )
                tx.remember(session.id)
        self._manager.record_allowed(caller, Action.PAUSE, [m for m in members if m.id != session.id])
        ids = [member.id for member in members]
        if not wanted.soft:
            await self._store.wait_until(lambda: not self._pausing(ids), wanted.wait_s)
        known = self._store.sessions
        paused = [known[i] for i in ids if i in known]
        warnings = [*_sentences(kept), *self._warnings(paused, wanted)]
        return PauseResult(paused, self._pausing(ids), warnings)

    async def resume(
        self, caller: Caller, reference: str, *, tree: bool, key: RequestKey | None
    ) -> PauseResult:
        """End the pause of a session, with `tree` also those of its descendants.

        A session with a hold, such as a spent budget, whose account is paused, or whose pause only others may end,
        stays paused, with a warning. The operator may resume one while its account is paused. Raises
        IllegalState if none of them is paused, and the error of the first one if none may go on.
        """
        session = self._manager.find(caller, reference, Action.PAUSE)
        kept: dict[str, SmError] = {}
        async with self._store.transaction(caller, key) as tx:
            members = await self._members(tx, caller, session, tree=tree)
            if tx.replayed is None:
                members = [s for s in members if s.paused is not None]
                if not members:
                    hint = None if is_live(session.status) else f"sm restore {name_to_type(session)}"
                    raise IllegalState(f"session {short_label(session)} is not paused", hint)
                kept = await self._of_others(tx, caller, members)
                for member in members:
                    refusal = None if member.id in kept else resume_refusal(tx, member)
                    if refusal is not None:
                        kept[member.id] = refusal
                        await leave_to_hold(tx, member)
                    is_free = caller.session_id is None or member.id in kept
                    if not is_free and (refusal := await tx.keep_paused(member)) is not None:
                        kept[member.id] = refusal
                members = [s for s in members if s.id not in kept]
                for member in members:
                    await self._manager.pauses.resume(tx, member, caller.name)
                if members:
                    tx.remember(session.id)
        if kept and not members:
            raise next(iter(kept.values()))
        self._manager.record_allowed(caller, Action.PAUSE, [m for m in members if m.id != session.id])
        known = self._store.sessions
        return PauseResult([known[m.id] for m in members if m.id in known], warnings=_sentences(kept))

    async def _of_others(
        self, tx: Transaction, caller: Caller, members: Sequence[Session]
    ) -> dict[str, SmError]:
        """The sessions whose pause the caller may neither end nor change, with the errors.

        A session may end its own pauses, those of its descendants and those of sm, but none of a person or an ancestor.
        """
        found: dict[str, SmError] = {}
        if caller.session_id is None:
            return found
        below = await tx.descendants(caller.session_id)
        mine = {SM_ITSELF, caller.session_id, *(s.id for s in below)}
        for member in members:
            if member.paused is not None and member.paused.by not in mine:
                found[member.id] = NotPermitted(
                    f"session {short_label(member)} was paused by {folded(member.paused.by)}: "
                    "you cannot change or end that pause"
                )
        return found

    async def _members(
        self, tx: Transaction, caller: Caller, session: Session, *, tree: bool
    ) -> list[Session]:
        now = tx.session(session.id)
        if not tree:
            return [now]
        descendants = await tx.descendants(session.id)
        return [now, *self._manager.filter_allowed(caller, Action.PAUSE, descendants, tx.find)]

    def _pausing(self, session_ids: Sequence[str]) -> list[str]:
        known = self._store.sessions
        return [i for i in session_ids if i in known and is_pausing(known[i])]

    def _warnings(self, paused: Sequence[Session], wanted: PauseRequest) -> list[str]:
        if wanted.soft:
            return []
        return [
            f"{s.display_name}: {PROGRAM_RUNS}"
            for s in paused
            if s.paused is not None
            and s.paused.suspends
            and s.paused.held != Held.FROZEN
            and s.effective_mode is TrustLevel.DIRECT
            and s.exit is None
            and s.process is not None
        ]

    # Timers

    async def begin(self) -> None:
        """Have the paused sessions verified that nothing looks at: an older version has paused them."""
        timers = self._store.mail.open.timers
        ids = [
            i for i, s in self._store.sessions.items() if is_pausing(s) and (i, TimerKind.PAUSE) not in timers
        ]
        if not ids:
            return
        try:
            async with self._store.transaction() as tx:
                for session_id in ids:
                    await look_first(tx, tx.session(session_id))
        except StorageFull as error:  # a full disk must not keep the daemon from starting
            log.warning("could not order looks at paused sessions: %s", error.message)

    async def resume_due(self, timer: Timer) -> float | None:
        """The time of a pause is over."""
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if not tx.timers.take(timer) or session is None or session.paused is None:
                return None
            if not await leave_to_hold(tx, session) and await tx.keep_paused(session) is None:
                await self._manager.pauses.resume(tx, session, SM_ITSELF)
        return None

    async def look_again(self, timer: Timer) -> float | None:
        """Look what a paused session still spends, and carry out the next step."""
        session = self._store.sessions.get(timer.subject)
        seen = None if session is None or session.paused is None else await self._look(session)
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if tx.timers.take(timer) and session is not None and seen is not None:
                await self._manager.pauses.follow_look(tx, session, seen)
        return None

    async def _look(self, session: Session) -> Seen:
        if session.process is None or session.exit is not None:
            return Seen(works=False, has_process=False)
        if await self._sight.is_frozen(session):
            return Seen(works=False, frozen=True)
        if not self._manager.provider(session).has_turns:
            effects = self._store.mail.open.effects.values()
            stops = any(e.session_id == session.id and e.kind == EffectKind.SUSPEND for e in effects)
            return Seen(works=False, still=not stops, tells=False)
        works = await self._sight.works(session.id)
        if works is None and session.status is Status.RUNNING:
            works = True  # an absence is no evidence
        return Seen(works=works, agents=self._sight.background_agents(session.id))


def is_pausing(session: Session) -> bool:
    return session.paused is not None and session.paused.state is PauseState.PAUSING


def _sentences(kept: Mapping[str, SmError]) -> list[str]:
    """Why sessions are left as they are, for people."""
    return [f"{error.message} ({error.hint})" if error.hint else error.message for error in kept.values()]


def check_not_paused(session: Session) -> None:
    """Raise IllegalState if a paused session would start an agent."""
    if session.paused is not None:
        raise IllegalState(
            f"session {short_label(session)} is paused ({folded(session.paused.reason)}): it cannot start agents",
            f"sm resume {name_to_type(session)}",
        )


def _end_of(wanted: PauseRequest, now: str) -> str | None:
    """The end of the pause. Raises UsageError."""
    if wanted.for_s is not None and wanted.until is not None:
        raise UsageError("a pause has either a duration or an end, not both", "use either --for or --until")
    if wanted.for_s is not None:
        if not 0 < wanted.for_s <= _LONGEST_S:
            raise UsageError(
                "the duration of a pause is more than 0 and at most 366 days", "sm pause SESSION --for 30m"
            )
        return later(now, wanted.for_s)
    if wanted.until is None:
        return None
    try:
        end_s = epoch_s(wanted.until)
        if not 0 < end_s - epoch_s(now) <= _LONGEST_S:
            raise UsageError(
                f"the end of a pause is in the future, at most 366 days from now: {folded(wanted.until, 40)} is not"
            )
        return iso(end_s)
    except (ValueError, OverflowError):
        raise UsageError(
            f"invalid time: {folded(wanted.until, 40)}", "sm pause SESSION --until 06:00"
        ) from None
