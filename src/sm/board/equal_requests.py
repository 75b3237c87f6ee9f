"""Groups the open requests that ask for the same, so that a person can answer them together. Pure."""

from collections.abc import Mapping, Sequence

from sm.board.needs import BoardNeed, Data
from sm.board.row import BoardRow
from sm.core.dataclass import dataclass
from sm.core.likeness import likeness, place_of

_PLACES = {
    "workspace": "in the same workspace",
    "directory": "in the same directory",
    "worktrees": "in worktrees of the same repository",
    "copies": "in copies of the same directory",
}
"""The sentence parts by the first word of a place."""


@dataclass(frozen=True, slots=True)
class EqualRequests:
    keys: Sequence[str]
    """The requests, in the order of the list."""
    words: str
    """`the same command in the same workspace: 12 of 19`."""


def equal_requests(found: Sequence[BoardNeed], rows: Mapping[str, BoardRow]) -> Mapping[str, EqualRequests]:
    """The group of each request that may be answered with others, by its key. It may be alone in its group.

    `found`: all entries that need a person.
    """
    groups, count = dict[object, list[BoardNeed]](), 0
    for need in found:
        if need.request is None:
            continue
        count += 1
        row = rows.get(need.session_id or "")
        # The place of a session that the view does not know is not known either.
        if row is not None and (key := likeness(need.request, place_of(row.data))) is not None:
            groups.setdefault(key, []).append(need)
    grouped = dict[str, EqualRequests]()
    for needs in groups.values():
        assert needs[0].request is not None
        row = rows[needs[0].session_id or ""]
        words = f"{_same(needs[0].request)} {_place(row)}: {len(needs)} of {count}"
        group = EqualRequests([need.key for need in needs], words)
        grouped |= dict.fromkeys(group.keys, group)
    return grouped


def _same(request: Data) -> str:
    if "command" in (request["arguments"] or {}):
        return "the same command"
    return "the same tool use" if request["kind"] == "permission" else f"the same {request['kind']}"


def _place(row: BoardRow) -> str:
    """The place, which the row and its equals share."""
    kind = place_of(row.data).partition(" ")[0]
    return _PLACES[kind]
