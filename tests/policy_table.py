"""Writes the permission table in docs/security.md from `sm.policy`: `python -m tests.policy_table`."""

from pathlib import Path

from sm.core.states import CallerKind, TrustLevel
from sm.policy.access import Action, Position, Relation, may

DOCUMENT = Path("docs/security.md")
BEGIN, END = "<!-- begin: python -m tests.policy_table -->", "<!-- end -->"
COLUMNS = {
    Position.SELF: "a session to itself",
    Position.DESCENDANT: "to its descendants",
    Position.TEAM: "to its team",
    Position.FOREIGN: "to another workspace",
}
NO, YES, SEEN = "-", "yes", "yes (1)"
_MODES = [(mine, theirs) for mine in TrustLevel for theirs in TrustLevel]


def cell(action: Action, position: Position) -> str:
    """The entry for sessions. Raises AssertionError if the table has no word for the combination."""
    allowed = {
        modes for modes in _MODES if may(Relation(CallerKind.SESSION, modes[0], position, modes[1]), action)
    }
    hidden = (TrustLevel.SANDBOXED, TrustLevel.DIRECT)
    words = {frozenset[tuple[TrustLevel, TrustLevel]](): NO, frozenset(_MODES): YES}
    words[frozenset(_MODES) - {hidden}] = SEEN
    assert frozenset(allowed) in words, (action, position, allowed)
    return words[frozenset(allowed)]


def table() -> str:
    rows = [["action", "the operator", *COLUMNS.values()], ["---"] * (2 + len(COLUMNS))]
    for action in Action:
        operator = YES if may(Relation(CallerKind.OPERATOR), action) else NO
        rows.append([action.value, operator, *(cell(action, position) for position in COLUMNS)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(document: str) -> str:
    """The document with the current table."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    assert begin and end, f"{DOCUMENT} has no lines {BEGIN} and {END}"
    return f"{before}{begin}{table()}{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
