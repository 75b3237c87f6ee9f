"""The list of what needs a person: selection, dead buttons, and what is new. Pure."""

from collections.abc import Sequence

from sm.board.guard import ButtonGuard
from sm.board.needs import BoardNeed
from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NeedsNews:
    new: Sequence[BoardNeed] = ()
    """Entries to announce. Those of the first update are not new."""
    vanished: str | None = None
    """The key of the selected entry, if it is no longer in the list."""


class NeedsList:
    """The selected entry stays selected until it vanishes; then its neighbour is, and its buttons are dead."""

    def __init__(self) -> None:
        self.found: Sequence[BoardNeed] = ()
        self.place = 0
        self.guard = ButtonGuard()
        self._key: str | None = None
        self._announced: set[str] | None = None

    @property
    def current(self) -> BoardNeed | None:
        return self.found[self.place] if self.found else None

    def update(self, found: Sequence[BoardNeed], clock_s: float) -> NeedsNews:
        """Take the entries as they are now. `clock_s`: the reader's own monotonic clock."""
        self.found = found
        keys, vanished = [need.key for need in self.found], None
        if self._key in keys:
            self.place = keys.index(self._key)
        else:
            vanished = self._key
            if vanished is not None:
                self.guard.slide(clock_s)
            self.select(self.place)
        self.guard.see(self.found, clock_s)
        before, self._announced = self._announced, set(keys)
        new = [] if before is None else [need for need in self.found if need.key not in before]
        return NeedsNews(new, vanished)

    def select(self, place: int) -> None:
        """Select the entry at that place, or the nearest one."""
        self.place = max(0, min(place, len(self.found) - 1))
        self._key = self.found[self.place].key if self.found else None

    def select_key(self, key: str) -> bool:
        """Select an entry by its key. Returns False if it is not there."""
        place = next((number for number, need in enumerate(self.found) if need.key == key), None)
        if place is not None:
            self.select(place)
        return place is not None
