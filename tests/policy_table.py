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
PAIRED_COLUMNS = {
    Position.DESCENDANT: "a paired user to their sessions",
    Position.FOREIGN: "to other sessions",
}
NO, YES, SEEN = "-", "yes", "yes (1)"
_MODES = [(mine, theirs) for mine in TrustLevel for theirs in TrustLevel]


def cell(action: Action, position: Position, kind: CallerKind = CallerKind.SESSION) -> str:
    """The entry for sessions or paired users. Raises AssertionError if the table has no word for the combination."""
    allowed = {modes for modes in _MODES if may(Relation(kind, modes[0], position, modes[1]), action)}
    hidden = (TrustLevel.SANDBOXED, TrustLevel.DIRECT)
    words = {frozenset[tuple[TrustLevel, TrustLevel]](): NO, frozenset(_MODES): YES}
    words[frozenset(_MODES) - {hidden}] = SEEN
    assert frozenset(allowed) in words, (action, position, allowed)
    return words[frozenset(allowed)]


def table() -> str:
    heads = ["action", "the operator", *COLUMNS.values(), "an owner in a chat", *PAIRED_COLUMNS.values()]
    rows = [heads, ["---"] * len(heads)]
    for action in Action:
        operator = YES if may(Relation(CallerKind.OPERATOR), action) else NO
        owner = YES if may(Relation(CallerKind.BRIDGE, owner=True), action) else NO
        sessions = [cell(action, position) for position in COLUMNS]
        paired = [cell(action, position, CallerKind.BRIDGE) for position in PAIRED_COLUMNS]
        if action is Action.SEE_WORKSPACE:  # no session is the target, so no column has that position
            paired[0] = cell(action, Position.SELF, CallerKind.BRIDGE)
        rows.append([action.value, operator, *sessions, owner, *paired])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(document: str) -> str:
    """The document with the current table."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    assert begin and end, f"{DOCUMENT} has no lines {BEGIN} and {END}"
    return f"{before}{begin}{table()}{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
