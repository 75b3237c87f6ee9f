"""States of pauses, and their words for people. Commands load this module at their start."""

from collections.abc import Sequence
from enum import StrEnum


class PauseState(StrEnum):
    PAUSING = "pausing"
    """Ordered: something may still spend."""
    PAUSED = "paused"
    """sm has seen that nothing spends."""


class Held(StrEnum):
    """The means that keeps a paused session from spending. Its values are stored, so they never change."""

    TOLD = "told"
    """The agent was told to stop, and reports that nothing runs."""
    FROZEN = "frozen"
    """Its processes are frozen in a cgroup of the session."""
    ENDED = "ended"
    """Its process was ended. The end of the pause starts it again in its conversation."""


_HELD: dict[str, str] = {
    Held.FROZEN: "its processes are frozen until sm resume",
    Held.ENDED: "its process was ended, and sm resume starts it again",
}


def spending_words(spends: Sequence[str]) -> str:
    """`3 background agents still spend`, `its turn still spends`."""
    words = " and ".join(spends) or "it may"
    many = len(spends) > 1 or words.endswith("s")
    return f"{words} still spend{'s' if spends and not many else ''}"


def held_words(held: str | None) -> str:
    """`its processes are frozen until sm resume`; empty if it was only told to stop, or held in an unknown way."""
    return _HELD.get(held or "", "")
