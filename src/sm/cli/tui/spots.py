"""Places in a picture that have words of their own, and a cursor that goes from one to the next. Pure."""

from collections.abc import Mapping, Sequence

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Spot:
    start: int
    """The first cell."""
    end: int
    """The last cell."""
    words: str
    """Safe to show."""
    weight: int = 0
    """Of the spots that share a cell, the pointer finds the one with the highest weight."""


Spots = Mapping[int, Sequence[Spot]]
"""The spots of each line of a picture, in the order of the keys."""


class SpotCursor:
    """The chosen spot, which stays chosen while later ones are added to the picture."""

    def __init__(self) -> None:
        self._spots: Spots = {}
        self._line: int | None = None
        self._place = 0

    def show(self, spots: Spots) -> None:
        """Take the spots as they are now."""
        self._spots = {line: found for line, found in spots.items() if found}
        if self._line not in self._spots:
            self._line = None

    @property
    def current(self) -> tuple[int, Spot] | None:
        """The line of the cursor and its spot, or None if it has not been moved yet."""
        if self._line is None:
            return None
        found = self._spots[self._line]
        return self._line, found[min(self._place, len(found) - 1)]

    def step(self, steps: int) -> None:
        """Go to a later or an earlier spot of the line."""
        if self._line is None:
            self.move(0)
        else:
            self._place = max(0, min(self._place + steps, len(self._spots[self._line]) - 1))

    def move(self, steps: int) -> None:
        """Go to the spot of another line that is nearest, at first to the last one of the first line."""
        lines = sorted(self._spots)
        if not lines:
            return
        if self.current is None:
            self._line, self._place = lines[0], len(self._spots[lines[0]]) - 1
            return
        line, spot = self.current
        self._line = lines[max(0, min(lines.index(line) + steps, len(lines) - 1))]
        if self._line != line:
            found = self._spots[self._line]
            self._place = min(range(len(found)), key=lambda place: abs(found[place].start - spot.start))

    def point(self, line: int, column: int) -> bool:
        """Go to the spot below the pointer. Returns False if there is none."""
        found = self._spots.get(line, ())
        places = [place for place, spot in enumerate(found) if spot.start <= column <= spot.end]
        if not places:
            return False
        self._line, self._place = line, max(places, key=lambda place: (found[place].weight, place))
        return True
