"""Use cases of accounts: lists, pauses and resumes them, and lets their sessions go on when a limit is over."""

from collections.abc import Sequence

from sm.capabilities.accounts.model import Account, Park, ParkKind
from sm.capabilities.accounts.operations import LIST, PAUSE, RESUME
from sm.capabilities.accounts.rules import paused_with
from sm.capabilities.accounts.settings import QuotaSettings
from sm.capabilities.accounts.state import (
    go_on,
    plan_attempt,
    record_success,
    release,
    sessions_of,
    try_again,
    waiting_sessions,
)
from sm.capabilities.accounts.tables import PART
from sm.core.dataclass import dataclass
from sm.core.labels import label
from sm.core.models import Caller, Session, is_pausing
from sm.core.pause_states import spending_words
from sm.core.pauses import WAIT_MAX_S, WAIT_S, PauseOrder
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s, iso
from sm.errors import NotFound
from sm.kernel import OperationCall
from sm.monitor import AgentListener
from sm.operations.hints import Hint, Use
from sm.sessions.authorizer import Authorizer
from sm.sessions.session_fields import StatusField
from sm.state.part_holds import leave_to_hold, resume_refusal
from sm.state.pause_orders import order_pause, order_resume
from sm.store import Store, Transaction
from sm.wire_types.account_answers import AccountView, ParkView, ResumedView


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account for a list."""

    account: Account
    sessions: int
    """Live sessions."""
    parks: Sequence[Park]
    waiting: int
    """Sessions that a park keeps from a turn."""
    paused: Sequence[Session] = ()
    """The live sessions that were paused with the account."""


class Accounts(AgentListener, StatusField):
    """Use cases of accounts, for the operator. Adds the parked ones to the overview."""

    name = "parked"

    def __init__(self, store: Store, authorizer: Authorizer, settings: QuotaSettings) -> None:
        self._store = store
        self._authorizer = authorizer
        self._settings = settings

    async def states(self, caller: Caller) -> list[AccountState]:
        """Every account by name. Raises NotPermitted."""
        self._authorizer.require(caller, LIST.audience)
        return await self._states()

    async def _states(self) -> list[AccountState]:
        async with self._store.transaction() as tx:
            states = []
            for account in tx.part(PART).rows.accounts.values():
                parks = tuple(tx.part(PART).parks(account.name).values())
                waiting = {
                    w.session_id for parked in parks for w in waiting_sessions(tx, parked, paused=True)
                }
                live = len(list(sessions_of(tx, account.name)))
                paused = _paused_with(tx, account.name)
                states.append(AccountState(account, live, parks, len(waiting), paused))
        return states

    async def value(self) -> list[AccountView]:
        """The accounts that are parked."""
        return [_view(state) for state in await self._states() if state.parks]

    # Operations

    async def show(self, call: OperationCall) -> list[AccountView]:
        return [_view(state) for state in await self.states(call.caller)]

    async def pause_account(self, call: OperationCall) -> list[AccountView]:
        wanted = call.arguments
        wait_s = WAIT_S if wanted.wait_s is None else min(wanted.wait_s, WAIT_MAX_S)
        await self.pause(call.caller, call.target, soft=bool(wanted.soft), wait_s=wait_s)
        return await self.show(call)

    async def resume_account(self, call: OperationCall) -> ResumedView:
        return ResumedView(await self.resume(call.caller, call.target) > 0)

    async def pause(self, caller: Caller, name: str, *, soft: bool, wait_s: float) -> None:
        """Park an account until `resume`, and pause its live sessions. Idempotent. Raises NotPermitted, NotFound.

        Returns when these spend nothing, or after `wait_s`. `soft`: only park the account, so that a turn and the
        background agents that are under way go on.
        """
        self._authorizer.require(caller, PAUSE.audience)
        ids = list[str]()
        async with self._store.transaction() as tx:
            _require_known(tx.part(PART).find(name), name)
            now = epoch_s(tx.now)
            tx.part(PART).park(Park(ParkKind.OPERATOR, "paused by the operator", now, account=name))
            plan_attempt(tx, name)
            for session in [] if soft else list(sessions_of(tx, name)):
                await self._pause_with(tx, caller, session, name)
                ids.append(session.id)
        known = self._store.sessions
        await self._store.wait_until(
            lambda: not any(i in known and is_pausing(known[i]) for i in ids), 0.0 if soft else wait_s
        )

    async def _pause_with(self, tx: Transaction, caller: Caller, session: Session, name: str) -> None:
        """Pause a session with its account. Its own pause stays, but lets no turn end any more."""
        own = session.paused
        if own is None:
            await order_pause(tx, session, PauseOrder(caller.name, paused_with(name), account=name))
        elif own.soft:
            order = PauseOrder(own.by, own.reason, own.until, hold=own.hold, account=own.account)
            await order_pause(tx, session, order)

    async def resume(self, caller: Caller, name: str) -> int:
        """End every park of an account, and the pauses that came with it; return their number.

        Raises NotPermitted, NotFound.
        """
        self._authorizer.require(caller, RESUME.audience)
        async with self._store.transaction() as tx:
            _require_known(tx.part(PART).find(name), name)
            parks = list(tx.part(PART).parks(name).values())
            paused = _paused_with(tx, name)
            for session in paused:  # before the release, which lets those that wait go on one after the other
                if resume_refusal(tx, session) is not None:
                    await leave_to_hold(tx, session)
                else:
                    await order_resume(tx, session, caller.name)
            for parked in parks:
                await release(tx, parked, self._settings.stagger_s)
        return len(parks) + len(paused)

    # Events

    async def turn_ended(self, session_id: str, at: float) -> None:
        session = self._store.sessions.get(session_id)
        if session is None or session.account is None:
            return
        async with self._store.transaction() as tx:
            await record_success(tx, tx.session(session_id), at, self._settings.stagger_s)

    # Timers

    async def try_again(self, timer: Timer) -> float | None:
        async with self._store.transaction() as tx:
            if tx.timers.take(timer):
                await try_again(tx, timer.subject, self._settings.stagger_s)
        return None

    async def follow(self, timer: Timer) -> float | None:
        async with self._store.transaction() as tx:
            session = tx.find(timer.subject)
            if (
                tx.timers.take(timer)
                and session is not None
                and tx.part(PART).rows.binding_park(session) is None
            ):
                await go_on(tx, session)
        return None


def _paused_with(tx: Transaction, name: str) -> list[Session]:
    """The sessions that were paused with the account."""
    return [s for s in sessions_of(tx, name) if s.paused is not None and s.paused.account == name]


def _require_known(account: Account | None, name: str) -> None:
    if account is None:
        raise NotFound(f"no such account: {name}", Hint("list accounts: ", Use(LIST)))


def _view(state: AccountState) -> AccountView:
    account = state.account
    return AccountView(
        name=account.name,
        provider=account.provider,
        directory=account.directory,
        sessions=state.sessions,
        waiting=state.waiting,
        paused=len(state.paused),
        spends=[
            f"{label(session)}: {spending_words(session.paused.spends)}"
            for session in state.paused
            if session.paused is not None and is_pausing(session)
        ],
        parks=[
            ParkView(
                kind=park.kind.value,
                reason=park.reason,
                since=iso(park.since),
                until=None if park.until is None else iso(park.until),
                model=park.model or None,
            )
            for park in state.parks
        ],
        last_success_at=account.last_success_at,
    )
