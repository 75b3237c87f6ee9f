"""Parses trust levels."""

from sm.core.models import Caller
from sm.core.states import BridgeLevel, TrustLevel

_LEVELS = {
    "direct": TrustLevel.DIRECT,
    "sandboxed": TrustLevel.SANDBOXED,
    # Names from earlier systems, accepted wherever a person writes a level.
    "trusted": TrustLevel.DIRECT,
    "full": TrustLevel.DIRECT,
    "vault": TrustLevel.DIRECT,
    "untrusted": TrustLevel.SANDBOXED,
}


def normalize_trust_level(value: str) -> TrustLevel:
    """Parse a trust level. Accepts legacy names and ignores case.

    Raises ValueError for anything else: an unknown name must never become the most trusted level.
    """
    level = _LEVELS.get(value.strip().lower())
    if level is None:
        raise ValueError(f"unknown trust level {value!r}: use sandboxed or direct")
    return level


def limited_trust(caller: Caller, requested: TrustLevel | None) -> TrustLevel | None:
    """The level that `caller` asks for, or None for no level in particular.

    A user who is paired as sandboxed always asks for a sandbox. Raises ValueError if that user requests more.
    """
    if caller.user is None or caller.user.level is not BridgeLevel.SANDBOXED:
        return requested
    if requested is TrustLevel.DIRECT:
        raise ValueError(f"user {caller.user.name} is paired as sandboxed")
    return TrustLevel.SANDBOXED


def child_trust(parent_effective: TrustLevel, requested: TrustLevel | None) -> TrustLevel | None:
    """The effective mode of a child, or None if the child requests more trust than the parent has."""
    if requested is None or requested is parent_effective:
        return parent_effective
    return requested if requested is TrustLevel.SANDBOXED else None
