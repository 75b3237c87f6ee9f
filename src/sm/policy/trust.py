"""Maps the words of people to trust levels (design section 7)."""

from sm.core.states import TrustLevel

_MEANING = {
    "direct": TrustLevel.DIRECT,
    "sandboxed": TrustLevel.SANDBOXED,
    # Words of the systems before ours; accepted wherever a person writes a level.
    "trusted": TrustLevel.DIRECT,
    "full": TrustLevel.DIRECT,
    "vault": TrustLevel.DIRECT,
    "untrusted": TrustLevel.SANDBOXED,
}


def normalize_trust_level(value: str) -> TrustLevel:
    """The level that `value` names, legacy words and any case included.

    Raises ValueError for anything else: an unknown word must never pass as the most trusted level.
    """
    level = _MEANING.get(value.strip().lower())
    if level is None:
        raise ValueError(f"unknown trust level {value!r}; use one of: {', '.join(_MEANING)}")
    return level


def child_trust(parent_effective: TrustLevel, asked: TrustLevel | None) -> TrustLevel | None:
    """What a child of such a parent runs in; None when it asks for more than the parent has."""
    if asked is None or asked is parent_effective:
        return parent_effective
    return asked if asked is TrustLevel.SANDBOXED else None
