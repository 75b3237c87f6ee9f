"""Writes the tables of docs/security.md: `python -m tests.policy_table`.

Both are from the declared operations: that of permissions by their audiences, as `sm.policy` decides, that of doors
by their routes.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sm import operations
from sm.api.routes import ROUTES
from sm.core.capability_parts import capability_parts
from sm.core.states import CallerKind, TrustLevel
from sm.operations.access_rules import EVERY_CALLER, Audience, CallerRole
from sm.operations.workspace_operations import SEE_WORKSPACE
from sm.policy.relations import Position, Relation, may
from sm.web import start_sheets, uploads
from sm.web.changes import DAEMON_ROUTES
from sm.web.relay import GET_ROUTES

DOCUMENT = Path("docs/security.md")
END = "<!-- end -->"
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


def cell(audience: Audience, position: Position, kind: CallerKind = CallerKind.SESSION) -> str:
    """The entry for sessions or paired users. Raises AssertionError if the table has no word for the combination."""
    allowed = {modes for modes in _MODES if may(Relation(kind, modes[0], position, modes[1]), audience)}
    hidden = (TrustLevel.SANDBOXED, TrustLevel.DIRECT)
    words = {frozenset[tuple[TrustLevel, TrustLevel]](): NO, frozenset(_MODES): YES}
    words[frozenset(_MODES) - {hidden}] = SEEN
    assert frozenset(allowed) in words, (audience.name, position, allowed)
    return words[frozenset(allowed)]


def permission_table() -> str:
    heads = ["action", "the operator", *COLUMNS.values(), "an owner in a chat", *PAIRED_COLUMNS.values()]
    rows = [heads, ["---"] * len(heads)]
    for audience in audiences().values():
        operator = YES if may(Relation(CallerKind.OPERATOR), audience) else NO
        owner = YES if may(Relation(CallerKind.BRIDGE, owner=True), audience) else NO
        sessions = [cell(audience, position) for position in COLUMNS]
        paired = [cell(audience, position, CallerKind.BRIDGE) for position in PAIRED_COLUMNS]
        if audience is SEE_WORKSPACE:  # no session is the target, so no column has that position
            paired[0] = cell(audience, Position.SELF, CallerKind.BRIDGE)
        rows.append([audience.action, operator, *sessions, owner, *paired])
    return _text(rows)


def kernel_declarations() -> Iterator[Any]:
    """Yield the contents of the modules of the kernel that declare operations."""
    for module in pkgutil.iter_modules(operations.__path__, f"{operations.__name__}."):
        yield from vars(importlib.import_module(module.name)).values()


def declarations() -> Iterator[Any]:
    """As `kernel_declarations`, with those of capabilities."""
    yield from kernel_declarations()
    for module in capability_parts("operations"):
        yield from vars(module).values()


def audiences(values: Iterable[Any] | None = None) -> dict[str, Audience]:
    """The audiences of operations and of their rules, by name. `EVERY_CALLER` needs no permission."""
    found: dict[str, Audience] = {}
    for value in declarations() if values is None else values:
        own = (value.audience, *value.rules) if isinstance(value, operations.Operation) else (value,)
        for audience in own:
            if isinstance(audience, Audience) and audience is not EVERY_CALLER:
                assert found.setdefault(audience.name, audience) is audience, audience.name
    return found


def members(audience: Audience) -> str:
    if audience is EVERY_CALLER:
        return "every caller"
    return ", ".join(member for member in CallerRole if member in audience.members)


def declared_operations() -> Iterator[operations.Operation]:
    """Yield the operations of capabilities and of the kernel."""
    seen = dict.fromkeys(value for value in declarations() if isinstance(value, operations.Operation))
    yield from seen


def door_table() -> str:
    declared = {(each.method, each.path): each for each in declared_operations()}
    pages = {f"GET {_shape(path)}" for path in GET_ROUTES} | {
        _shape(route) for route in (*DAEMON_ROUTES, *start_sheets.DAEMON_ROUTES, *uploads.DAEMON_ROUTES)
    }
    heads = [
        "route",
        "operation",
        "who may call it",
        "also decided by the right to",
        "sandboxed agents",
        "`sm web`",
        "`sm`",
        "MCP tool",
        "in chats",
        "key in live views",
    ]
    rows = [heads, ["---"] * len(heads)]
    for route in (route for routes in ROUTES.values() for route in routes):
        names = declared.pop((route.method, route.path))
        relayed = YES if f"{route.method} {_shape(route.path)}" in pages else NO
        tool = f"{names.tool} {names.tool_action}".strip()
        doors = [
            f"`{name}`" if name else ""
            for name in (names.command, tool, names.chat and f"/{names.chat}", names.key)
        ]
        rows.append(
            [
                f"{route.method} {route.path}",
                route.name,
                members(names.audience),
                ", ".join(rule.action for rule in names.rules),
                YES if route.agents else NO,
                relayed,
                *doors,
            ]
        )
    assert not declared, f"operations without a route: {declared}"
    return _text(rows)


def _shape(path: str) -> str:
    """The path without the name of its target."""
    return re.sub(r"{\w+}", "{}", path)


def _text(rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


TABLES = {
    "<!-- begin: permissions, python -m tests.policy_table -->": permission_table,
    "<!-- begin: doors, python -m tests.policy_table -->": door_table,
}


def written(document: str) -> str:
    """The document with the current tables."""
    for begin, table in TABLES.items():
        before, found, rest = document.partition(f"{begin}\n")
        _, end, after = rest.partition(END)
        assert found and end, f"{DOCUMENT} has no lines {begin} and {END}"
        document = f"{before}{found}{table()}{end}{after}"
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
