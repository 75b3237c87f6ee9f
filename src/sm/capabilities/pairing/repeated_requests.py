"""Decides what happens with a request for pairing of an unknown user. Pure."""

from collections.abc import Iterable
from enum import StrEnum

from sm.capabilities.pairing.model import PairRequest, PairState
from sm.policy.limits import elapsed_s

REPLY_EVERY_S = 600.0
EXPIRES_S = 86_400.0
OPEN_MAX = 20


class PairDecision(StrEnum):
    """The value is the reason in the audit log. An unknown user learns nothing from silence."""

    OPEN = "asked to be paired"
    """Open a request, and reply."""
    REPEAT = "asked again: the request is open"
    """Reply again."""
    TOO_SOON = "asked again too soon"
    DENIED = "asked again after a denial"
    FULL = "too many requests are open"


def has_expired(request: PairRequest, now: str) -> bool:
    since_s = elapsed_s(request.created_at, now)
    return since_s is not None and since_s >= EXPIRES_S


def open_requests(requests: Iterable[PairRequest], now: str) -> list[PairRequest]:
    """The requests that can be approved or denied."""
    return [r for r in requests if r.state is PairState.OPEN and not has_expired(r, now)]


def decide_request(user: str, requests: Iterable[PairRequest], now: str) -> PairDecision:
    """Decide for a user who is not paired and asks for it at `now`. `requests`: those of all users, in any state."""
    known = [r for r in requests if not has_expired(r, now)]
    own = [r for r in known if r.user == user]
    if any(r.state is PairState.DENIED for r in own):
        return PairDecision.DENIED
    waited = [elapsed_s(r.replied_at, now) for r in own]
    if any(since_s is not None and since_s < REPLY_EVERY_S for since_s in waited):
        return PairDecision.TOO_SOON
    if open_requests(own, now):
        return PairDecision.REPEAT
    return PairDecision.FULL if len(open_requests(known, now)) >= OPEN_MAX else PairDecision.OPEN
