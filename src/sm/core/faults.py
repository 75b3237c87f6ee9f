"""Faults: why a turn of an agent failed, in words that are the same for every provider. Pure."""

from datetime import UTC, datetime
from enum import StrEnum

from sm.core.dataclass import dataclass

_DAY_S = 86_400.0


class FaultKind(StrEnum):
    """Kinds of faults. Stored in rows, and shown in events."""

    QUOTA = "quota"
    """The usage limit of the account, which ends at a time."""
    THROTTLED = "throttled"
    """The service refuses requests for a short time. Not the account's usage limit."""
    OVERLOADED = "overloaded"
    SERVER = "server"
    """The service failed."""
    NETWORK = "network"
    """The service was not reached, or the connection broke."""
    LOGIN = "login"
    """The account is not logged in, or its login is no longer accepted."""
    BILLING = "billing"
    """The account has no credit, or its plan does not include this use."""
    MODEL = "model"
    """The model does not exist, or the account may not use it."""
    REQUEST = "request"
    """The service rejects the request itself: the same request fails again."""
    OUTPUT_LIMIT = "output_limit"
    """The answer was longer than the model may write."""
    CONTEXT_FULL = "context_full"
    """The conversation is longer than the model can read."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason for which a turn failed, from the fields of the failed turn itself."""

    kind: FaultKind
    text: str
    """The agent CLI's words, in one line."""
    name: str = ""
    """A few words for reasons and lists: `session limit`."""
    resets_at: float | None = None
    """The time at which a quota is available again, in seconds since the epoch, or None if unknown or not a quota."""
    model: str = ""
    """A part of the names of the models that the fault binds, in lower case (`opus`), or empty for all models."""
    hint: str = ""
    """The action of a person that ends the fault, with NAME for the session. Empty if the fault may end by itself."""


def fault_reason(fault: Fault, at: float) -> str:
    """The fault as the reason of a status. `at`: the time of the fault, in seconds since the epoch."""
    if fault.kind is FaultKind.QUOTA:
        when = "at an unknown time" if fault.resets_at is None else reset_time(fault.resets_at, at)
        return f"{fault.name}, resets {when}"
    return f"the turn failed: {fault.name}: {fault.text}" if fault.text else f"the turn failed: {fault.name}"


def reset_time(resets_at: float, at: float) -> str:
    """The local time `06:00`, with its date if that is more than 24 hours after `at`: `Nov 25 15:00`."""
    time = datetime.fromtimestamp(resets_at, UTC).astimezone()
    return time.strftime("%H:%M" if resets_at - at <= _DAY_S else "%b %-d %H:%M")
