"""The order of rows in live views, and the tree that they form. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sm.board.row import BoardRow
from sm.core.columns import BRANCHES

_LEVELS_MAX = 20
"""Deeper levels are drawn like this one."""


class Sort(StrEnum):
    TREE = "tree"
    NEEDS_ME = "needs me"
    AGE = "age"
    COST = "cost"
    NAME = "name"


NESTED = frozenset({Sort.TREE, Sort.NEEDS_ME})
"""The orders that show the tree. The others are flat."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row in its place."""

    row: BoardRow
    branch: str = ""
    """The line that leads to it, as `│  └─ `."""
    depth: int = 0
    children: int = 0
    folded: int = 0
    """The number of descendants that are hidden below it."""
    gone: bool = False
    """The session is no longer in the list, but its line stays in its place until the list rests."""


def arrange(
    rows: Mapping[str, BoardRow], selected: Sequence[BoardRow], sort: Sort, folded: Collection[str]
) -> list[Line]:
    """The lines of the `selected` rows. `rows`: all, oldest first; a row is nested below its nearest selected ancestor.

    Parents may form a cycle: its oldest member is then a root.
    """
    if sort not in NESTED:
        return [Line(row) for row in sorted(selected, key=_KEYS[sort])]
    children = _children(rows, selected)
    order = _preorder(children, selected)
    if sort is Sort.NEEDS_ME:
        urgency: dict[str, int] = {}
        for row in reversed(order):
            below = (urgency.get(child.id, row.urgency) for child in children.get(row.id, ()))
            urgency[row.id] = min(row.urgency, *below, row.urgency)
        for siblings in children.values():
            siblings.sort(key=lambda row: urgency[row.id])
        order = _preorder(children, sorted(selected, key=lambda row: urgency[row.id]))
    return _lines(order, children, folded)


def _children(rows: Mapping[str, BoardRow], selected: Sequence[BoardRow]) -> dict[str | None, list[BoardRow]]:
    """The selected rows below each one, in the order of `selected`; below None the roots."""
    ids = {row.id for row in selected}
    nearest: dict[str, str | None] = {}

    def shown_parent(row: BoardRow) -> str | None:
        passed = list[str]()
        seen = {row.id}
        parent = row.parent_id
        while parent is not None and parent not in ids:
            if parent in nearest:
                parent = nearest[parent]
                break
            above = rows.get(parent)
            if above is None or parent in seen:
                parent = None
                break
            seen.add(parent)
            passed.append(parent)
            parent = above.parent_id
        for session_id in passed:
            nearest[session_id] = parent
        return None if parent == row.id else parent

    children: dict[str | None, list[BoardRow]] = {}
    for row in selected:
        children.setdefault(shown_parent(row), []).append(row)
    return children


def _preorder(
    children: Mapping[str | None, Sequence[BoardRow]], selected: Sequence[BoardRow]
) -> list[BoardRow]:
    """Each parent before its children. A cycle has no root, so its first member in `selected` becomes one."""
    order, seen = list[BoardRow](), set[str]()

    def visit(root: BoardRow) -> None:
        stack = [root]
        while stack:
            row = stack.pop()
            if row.id not in seen:
                seen.add(row.id)
                order.append(row)
                stack.extend(reversed(children.get(row.id, ())))

    for root in children.get(None, ()):
        visit(root)
    if len(order) < len(selected):
        for row in selected:
            if row.id not in seen:
                visit(row)
    return order


def _lines(
    order: Sequence[BoardRow],
    children: Mapping[str | None, Sequence[BoardRow]],
    folded: Collection[str],
) -> list[Line]:
    place = {row.id: number for number, row in enumerate(order)}

    def below(row: BoardRow) -> list[BoardRow]:
        # A member of a cycle may be its own descendant: only rows after it are drawn below it.
        return [child for child in children.get(row.id, ()) if place[child.id] > place[row.id]]

    drawn_below = {row.id: below(row) for row in order if row.id in children}
    sizes: dict[str, int] = {}
    for row in reversed(order):
        sizes[row.id] = 1 + sum(sizes[child.id] for child in drawn_below.get(row.id, ()))
    lines = list[Line]()
    indents: dict[str, tuple[str, str, int]] = {}
    hidden_until = -1
    for number, row in enumerate(order):
        if number < hidden_until:
            continue
        branch, indent, depth = indents.get(row.id, ("", "", 0))
        nested = drawn_below.get(row.id) or []
        is_folded = bool(nested) and row.id in folded
        lines.append(Line(row, branch, depth, len(nested), sizes[row.id] - 1 if is_folded else 0))
        if is_folded:
            hidden_until = number + sizes[row.id]
            continue
        for child in nested:
            corner, more = BRANCHES[child is nested[-1]]
            deeper = indent if depth >= _LEVELS_MAX else indent + more
            indents[child.id] = indent + corner, deeper, depth + 1
    return lines


_KEYS: Mapping[Sort, Callable[[BoardRow], tuple[object, ...]]] = {
    # The longest wait first; ended sessions after live ones.
    Sort.AGE: lambda row: (not row.is_live, row.status_at_s),
    Sort.COST: lambda row: (-row.cost,),
    Sort.NAME: lambda row: (row.label.casefold(), row.id),
}
