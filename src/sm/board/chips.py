"""The workspace switcher of live views. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sm.board.needs import BoardNeed
from sm.board.row import BoardRow
from sm.core.dataclass import dataclass

ALL = "All"
_KEYS = "0123456789"


@dataclass(frozen=True, slots=True)
class Chip:
    slug: str | None
    """None for all sessions."""
    key: str
    """A digit; empty for the workspaces after the ninth."""
    sessions: int
    needs: int
    """The entries that need a person and are not in the chosen workspace; 0 on the chosen chip."""

    @property
    def label(self) -> str:
        return self.slug or ALL


def chips(
    rows: Mapping[str, BoardRow], found: Sequence[BoardNeed], workspaces: Iterable[str], chosen: str | None
) -> list[Chip]:
    """`All`, then each workspace by name. `workspaces`: those that are not deleted."""
    sessions = Counter(row.workspace for row in rows.values())
    needing = (rows.get(need.session_id or "") for need in found if need.is_urgent)
    urgent = Counter(row.workspace for row in needing if row is not None)
    outside = sum(count for slug, count in urgent.items() if slug != chosen)
    shown: list[Chip] = [Chip(None, _KEYS[0], len(rows), 0 if chosen is None else outside)]
    for number, slug in enumerate(sorted(workspaces), 1):
        key = _KEYS[number] if number < len(_KEYS) else ""
        count = 0 if chosen in (slug, None) else urgent[slug]
        shown.append(Chip(slug, key, sessions[slug], count))
    return shown


def neighbour_of(found: Sequence[Chip], chosen: str | None, steps: int) -> str | None:
    """The slug of the chip that many steps after the chosen one. `All` follows the last one."""
    place = next((number for number, chip in enumerate(found) if chip.slug == chosen), 0)
    return found[(place + steps) % len(found)].slug
