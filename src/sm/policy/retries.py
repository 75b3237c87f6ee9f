"""Decides whether the session of a failed turn goes on after a pause. Pure."""

from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.core.faults import FaultKind

_RETRIED = frozenset({FaultKind.THROTTLED, FaultKind.OVERLOADED, FaultKind.SERVER, FaultKind.NETWORK})
"""Faults that may be over when the agent tries again."""


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """`retry` of the configuration."""

    max: int
    backoff_s: Sequence[float]
    """The pause before each attempt; the last one repeats."""


def pause_before_retry_s(kind: FaultKind, tries: int, limits: RetryLimits) -> float | None:
    """The seconds before a retry, or None if the failed turn is only told. `tries`: the retries in a row before it."""
    if kind in _RETRIED and tries < limits.max and limits.backoff_s:
        return limits.backoff_s[min(tries, len(limits.backoff_s) - 1)]
    return None
