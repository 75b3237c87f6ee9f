"""Use cases of pauses: pauses and resumes a session, or a tree."""

from collections.abc import Mapping, Sequence

from sm.capabilities.pauses.operations import PAUSE, RESUME, PauseRequest
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Caller, Session, is_pausing
from sm.core.pause_states import Held
from sm.core.pauses import WAIT_S, PauseOrder
from sm.core.states import TrustLevel
from sm.core.text import NOTE_MAX, folded, validate_text
from sm.core.timestamps import epoch_s, iso, later
from sm.errors import IllegalState, NotPermitted, SmError, UsageError
from sm.kernel import OperationCall
from sm.operations import SessionsResult
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import RESTORE
from sm.sessions.authorizer import Authorizer
from sm.state.part_holds import leave_to_hold, resume_refusal
from sm.state.pause_orders import order_pause, order_resume
from sm.store import Store, Transaction

_LONGEST_S = 366 * 86_400.0
_PROGRAM_RUNS = (
    "its program keeps running, because tmux continues it; the processes that it started are stopped"
)


class Pausing:
    """Use cases of pauses, within the permissions of the caller."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def pause(self, call: OperationCall) -> SessionsResult:
        """Pause a session, with `tree` also its live descendants; return when they spend nothing, or the wait is over.

        Changes the end and the reason of a pause that has begun already, unless only others may end it. Raises
        IllegalState if no session of these is live, NotPermitted for a pause of others, and UsageError for an end in
        the past.
        """
        caller = call.caller
        wanted: PauseRequest = call.arguments
        session = self._authorizer.find(caller, call.target, PAUSE.audience)
        reason = "paused by " + ("the operator" if caller.mailbox is None else str(caller))
        if wanted.reason is not None and wanted.reason.strip():
            reason = validate_text(wanted.reason, "reason", NOTE_MAX, one_line=True).strip()
        until = _end_of(wanted, self._store.now())
        order = PauseOrder(caller.name, reason, until, wanted.for_s, bool(wanted.soft))
        kept: dict[str, SmError] = {}
        async with self._store.transaction(caller, call.key) as tx:
            members = await self._members(tx, caller, session, tree=bool(wanted.tree))
            members = [member for member in members if is_live(member.status)]
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
                    await order_pause(tx, member, order)
                tx.remember(session.id)
        self._authorizer.record_allowed(caller, PAUSE.audience, [m for m in members if m.id != session.id])
        ids = [member.id for member in members]
        if not wanted.soft:
            wait_s = WAIT_S if wanted.wait_s is None else wanted.wait_s
            await self._store.wait_until(lambda: not self._pausing(ids), wait_s)
        known = self._store.sessions
        paused = [known[i] for i in ids if i in known]
        warnings = [*_sentences(kept), *([] if wanted.soft else _warnings(paused))]
        return SessionsResult(paused, self._pausing(ids), warnings)

    async def resume(self, call: OperationCall) -> SessionsResult:
        """End the pause of a session, with `tree` also those of its descendants.

        A session with a hold, such as a spent budget, whose account is paused, or whose pause only others may end,
        stays paused, with a warning. The operator may resume one while its account is paused. Raises
        IllegalState if none of them is paused, and the error of the first one if none may go on.
        """
        caller = call.caller
        session = self._authorizer.find(caller, call.target, RESUME.audience)
        kept: dict[str, SmError] = {}
        async with self._store.transaction(caller, call.key) as tx:
            members = await self._members(tx, caller, session, tree=bool(call.arguments.tree))
            if tx.replayed is None:
                members = [s for s in members if s.paused is not None]
                if not members:
                    hint = None if is_live(session.status) else Hint(Use(RESTORE, name_to_type(session)))
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
                    await order_resume(tx, member, caller.name)
                if members:
                    tx.remember(session.id)
        if kept and not members:
            raise next(iter(kept.values()))
        self._authorizer.record_allowed(caller, RESUME.audience, [m for m in members if m.id != session.id])
        known = self._store.sessions
        return SessionsResult([known[m.id] for m in members if m.id in known], warnings=_sentences(kept))

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
        return [now, *self._authorizer.filter_allowed(caller, PAUSE.audience, descendants, tx.find)]

    def _pausing(self, session_ids: Sequence[str]) -> list[str]:
        known = self._store.sessions
        return [i for i in session_ids if i in known and is_pausing(known[i])]


def _sentences(kept: Mapping[str, SmError]) -> list[str]:
    """Why sessions are left as they are, for people."""
    return [f"{error.message} ({error.hint})" if error.hint else error.message for error in kept.values()]


def _warnings(paused: Sequence[Session]) -> list[str]:
    return [
        f"{s.display_name}: {_PROGRAM_RUNS}"
        for s in paused
        if s.paused is not None
        and s.paused.suspends
        and s.paused.held != Held.FROZEN
        and s.effective_mode is TrustLevel.DIRECT
        and s.exit is None
        and s.process is not None
    ]


def _end_of(wanted: PauseRequest, now: str) -> str | None:
    """The end of the pause. Raises UsageError."""
    if wanted.for_s is not None and wanted.until is not None:
        raise UsageError("a pause has either a duration or an end, not both", "use either --for or --until")
    if wanted.for_s is not None:
        if not 0 < wanted.for_s <= _LONGEST_S:
            raise UsageError(
                "the duration of a pause is more than 0 and at most 366 days",
                Hint(Use(PAUSE, "SESSION", "--for", "30m")),
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
            f"invalid time: {folded(wanted.until, 40)}", Hint(Use(PAUSE, "SESSION", "--until", "06:00"))
        ) from None
