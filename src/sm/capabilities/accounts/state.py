"""Parks accounts, and lets their sessions go on. Functions of a transaction."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from sm.capabilities.accounts.model import AccountTimer, Park, ParkKind
from sm.capabilities.accounts.rules import WaitingSession, followers, go_first, park
from sm.capabilities.accounts.tables import PART
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.faults import Fault
from sm.core.lifecycle import is_ended, is_live
from sm.core.messages import SM_ITSELF, Message
from sm.core.models import Session, ancestors
from sm.core.states import MessageMode, MessageState
from sm.core.statuses import Status
from sm.core.timers import Timer
from sm.core.timestamps import epoch_s, iso
from sm.store import Transaction

GO_ON = "The limit that ended your last turn is over. Go on with your work."
ATTEMPT_S = 600.0
"""The time after which another session tries, if the first one has neither succeeded nor failed."""
_SUCCESS_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class ParkChange:
    park: Park
    is_news: bool
    """The account was not parked before, or for another reason."""


# Parks


def park_account(tx: Transaction, session: Session, fault: Fault, at: float) -> ParkChange | None:
    """Park the session's account for a fault of the account. Returns None for another fault or an unknown account."""
    if session.account is None:
        return None
    known = tx.part(PART).parks(session.account)
    before = known.get(fault.model) or next((p for p in known.values() if p.kind is not ParkKind.QUOTA), None)
    is_attempt = before is not None and before.first == session.id
    parked = park(fault, at, before, is_attempt=is_attempt)
    if parked is None:
        return None
    parked = replace(parked, account=session.account, first=None if is_attempt else parked.first)
    if parked != before:
        tx.part(PART).park(parked)
        plan_attempt(tx, session.account)
    is_news = before is None or (before.kind, before.reason) != (parked.kind, parked.reason)
    return ParkChange(parked, is_news)


def plan_attempt(tx: Transaction, account: str) -> None:
    """Set the timer of the account to its next attempt."""
    due = min((p.until for p in tx.part(PART).parks(account).values() if p.until is not None), default=None)
    if due is None:
        tx.timers.remove(account, AccountTimer.PARK)
    else:
        tx.timers.set(Timer(account, AccountTimer.PARK, iso(due)))


def roots_of(tx: Transaction, account: str | None) -> Collection[str]:
    """The live roots of the trees with live sessions of the account."""
    if account is None:
        return ()
    roots = set()
    for session in sessions_of(tx, account):
        *_, root = (session, *ancestors(session, tx.find))
        if is_live(root.status) and root.exit is None:
            roots.add(root.id)
    return roots


def sessions_of(tx: Transaction, account: str) -> Iterable[Session]:
    return [s for s in tx.unfinished_sessions() if s.account == account and is_live(s.status)]


# The end of a park


def waiting_sessions(tx: Transaction, parked: Park, *, paused: bool = False) -> list[WaitingSession]:
    """The sessions that the park keeps from a turn: cut off, with a message, or not started.

    `paused`: also those that were paused with the account.
    """
    open, waiting = tx.mail.open, []
    recipients = {
        m.session_id for m in open.messages.values() if m.state is MessageState.QUEUED and not m.is_held
    }
    starts = {e.session_id for e in open.effects.values() if e.kind == EffectKind.START}
    for session in sessions_of(tx, parked.account):
        cut_off = session.cut_off_at is not None and session.status is not Status.RUNNING
        waits = cut_off or session.id in recipients
        if (
            (session.paused is None or (paused and session.paused.account == parked.account))
            and parked.binds(session.model)
            and (waits or (_is_unstarted(session) and session.id in starts))
        ):
            since = session.cut_off_at if cut_off and session.cut_off_at else session.created_at
            waiting.append(WaitingSession(session.id, epoch_s(since), cut_off))
    return waiting


def _is_unstarted(session: Session) -> bool:
    """True for a new session, and for one whose restart is due."""
    return session.process is None and session.status in (Status.SPAWNED, Status.STARTING)


async def try_again(tx: Transaction, account: str, stagger_s: float) -> None:
    """The time of the account's next attempt has come: one session goes first."""
    now = epoch_s(tx.now)
    for parked in list(tx.part(PART).parks(account).values()):
        if parked.until is None or parked.until > now:
            continue
        first = tx.find(parked.first)
        if first is not None and first.status is Status.RUNNING:  # it has worked since: the limit is over
            await release(tx, parked, stagger_s)
            continue
        chosen = go_first(w for w in waiting_sessions(tx, parked) if w.session_id != parked.first)
        if chosen is None:
            tx.part(PART).unpark(parked)
            continue
        tx.part(PART).park(replace(parked, first=chosen.session_id, until=now + ATTEMPT_S))
        await go_on(tx, tx.session(chosen.session_id))
    plan_attempt(tx, account)


async def release(tx: Transaction, parked: Park, stagger_s: float) -> None:
    """End the park. The sessions that wait go on one after the other."""
    tx.part(PART).unpark(parked)
    plan_attempt(tx, parked.account)
    waiting = [w for w in waiting_sessions(tx, parked) if w.session_id != parked.first]
    for session, due in followers(waiting, epoch_s(tx.now), stagger_s):
        tx.timers.set(Timer(session.session_id, AccountTimer.FOLLOW, iso(due)))


async def go_on(tx: Transaction, session: Session) -> None:
    """Send a message to a session whose turn a limit cut off, once. Other sessions need none."""
    if session.cut_off_at is None or is_ended(session.status):
        return
    works = session.status is Status.RUNNING  # its agent CLI has continued by itself
    await tx.update(session, cut_off_at=None)
    if works:
        return
    message = Message(
        id=tx.mail.new_id("messages"),
        session_id=session.id,
        sender=SM_ITSELF,
        mode=MessageMode.AUTO,
        state=MessageState.QUEUED,
        created_at=tx.now,
        state_at=tx.now,
    )
    tx.mail.add_message(message, GO_ON)


async def record_success(tx: Transaction, session: Session, at: float, stagger_s: float) -> None:
    """A turn of the session has ended at `at` and did not fail."""
    account = None if session.account is None else tx.part(PART).find(session.account)
    if account is None:
        return
    if session.cut_off_at is not None and epoch_s(session.cut_off_at) < at:
        session = await tx.update(session, cut_off_at=None)
    if account.last_success_at is None or at - epoch_s(account.last_success_at) >= _SUCCESS_EVERY_S:
        tx.part(PART).put(replace(account, last_success_at=iso(at)))
    for parked in list(tx.part(PART).parks(account.name).values()):
        proves = parked.first == session.id or (
            parked.kind in (ParkKind.LOGIN, ParkKind.BILLING) and parked.since < at
        )
        if proves and parked.binds(session.model):
            await release(tx, replace(parked, first=session.id), stagger_s)
