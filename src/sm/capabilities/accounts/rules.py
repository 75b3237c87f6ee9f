"""Decides which faults park an account, and in which order its sessions go on. Pure.

Times are seconds since the epoch; `now` is an argument.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sm.capabilities.accounts.model import Park, ParkKind
from sm.core.dataclass import dataclass
from sm.core.faults import Fault, FaultKind, reset_time
from sm.core.models import Session

FIRST_TRY_S = 300.0
LONGEST_TRY_S = 3600.0
"""The pause before an attempt without a usable reset time: it doubles up to the longest one."""
AHEAD_MAX_S = 60 * 86_400.0
"""A reset time further away is not believed."""

_PARKS = {
    FaultKind.QUOTA: ParkKind.QUOTA,
    FaultKind.LOGIN: ParkKind.LOGIN,
    FaultKind.BILLING: ParkKind.BILLING,
}


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """A session of a parked account that would otherwise do something."""

    session_id: str
    since: float
    cut_off: bool = False
    """A limit ended its turn: it needs a message to go on."""


def binding_park(parks: Iterable[Park], session: Session) -> Park | None:
    """The park for which the session must wait: one without a time before others, then the latest."""
    if session.account is None:
        return None
    binding = [
        park
        for park in parks
        if park.account == session.account and park.binds(session.model) and park.first != session.id
    ]
    return max(binding, key=lambda park: (park.until is None, park.until or 0.0), default=None)


def park_reason(parked: Park, now: float) -> str:
    """`parked until 06:00: session limit`."""
    until = "" if parked.until is None else f" until {reset_time(parked.until, now)}"
    return f"parked{until}: {parked.reason}"


def paused_with(account: str) -> str:
    """The reason of a session that is paused with its account."""
    return f"account {account} was paused"


def park(fault: Fault, now: float, before: Park | None, *, is_attempt: bool) -> Park | None:
    """The park of an account after a fault at `now`, or None if the fault is none of the account.

    An account has one park for each model, and one for all models. `before`: the one with the fault's model.
    `is_attempt`: the failed turn was the attempt at the time of that park. Other turns that
    fail while the account is parked began before it was, and tell nothing new unless they name a later time.
    """
    kind = _PARKS.get(fault.kind)
    if kind is None:
        return None
    if kind is not ParkKind.QUOTA:
        return before if before is not None and before.kind is kind else Park(kind, fault.name, now)
    if before is not None and before.kind is not ParkKind.QUOTA:
        return before  # that one lasts longer: no time ends it
    resets_at = fault.resets_at
    usable = resets_at is not None and now < resets_at <= now + AHEAD_MAX_S
    if before is not None and not is_attempt:
        later = usable and (before.until is None or (resets_at or 0) > before.until)
        return replace(before, until=resets_at, reason=fault.name) if later else before
    tries = before.tries + 1 if before is not None and is_attempt else 0
    until = resets_at if usable else now + retry_pause_s(tries)
    since = before.since if before is not None and is_attempt else now
    return Park(kind, fault.name, since, until, fault.model, tries)


def retry_pause_s(tries: int) -> float:
    """The pause before the next attempt when no reset time is usable, after `tries` attempts."""
    return min(FIRST_TRY_S * 2.0 ** min(tries, 10), LONGEST_TRY_S)


def go_first(waiting: Iterable[WaitingSession]) -> WaitingSession | None:
    """The session that goes on alone, to try whether the limit is over, or None if no session waits.

    One whose turn was cut off comes before the others, and the one that has waited longest before later ones.
    """
    return min(waiting, key=_order, default=None)


def followers(
    waiting: Iterable[WaitingSession], now: float, stagger_s: float
) -> Sequence[tuple[WaitingSession, float]]:
    """The other sessions in their order, each with the time at which it goes on."""
    ordered = sorted(waiting, key=_order)
    return [(session, now + stagger_s * number) for number, session in enumerate(ordered, 1)]


def _order(session: WaitingSession) -> tuple[bool, float, str]:
    return not session.cut_off, session.since, session.session_id
