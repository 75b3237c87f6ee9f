"""Keeps a button dead for a moment after it appears, so that nobody decides on words that they have not read. Pure."""

from collections.abc import Sequence

from sm.board.needs import BoardNeed

DEAD_S = 0.5


class ButtonGuard:
    """Knows since when each request is shown with its present words."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[str | None, float]] = {}
        self._pointed_at_s: float | None = None

    def see(self, found: Sequence[BoardNeed], clock_s: float) -> None:
        """Note what is shown now. `clock_s`: the reader's monotonic clock."""
        before = self._shown
        self._shown = {}
        for need in found:
            known = before.get(need.key)
            is_same = known is not None and known[0] == need.digest
            self._shown[need.key] = known if known is not None and is_same else (need.digest, clock_s)

    def slide(self, clock_s: float) -> None:
        """Note that another request has come below the cursor without a move of the person."""
        self._pointed_at_s = clock_s

    def has_shown(self, need: BoardNeed) -> bool:
        """Return whether the present words of an entry are those that are shown."""
        shown = self._shown.get(need.key)
        return shown is not None and shown[0] == need.digest

    def is_dead(self, key: str, clock_s: float) -> bool:
        shown = self._shown.get(key)
        since_s = [at_s for at_s in (shown and shown[1], self._pointed_at_s) if at_s is not None]
        return shown is None or clock_s - max(since_s) < DEAD_S
