"""Warnings in answers."""

from sm.core.dataclass import dataclass
from sm.wire_types.fields import Time


@dataclass(frozen=True, slots=True)
class WarningView:
    """A sign that a session goes wrong, whose cause lasts."""

    kind: str
    """The kind, such as `loop`; docs/lifecycle.md describes each."""
    at: Time
    value: float
    """The measured value; its unit depends on `kind`."""
    limit: float
    """The limit that `value` has reached."""
    evidence: str
    """One line for people. It may quote the agent."""
