"""Trees of sessions as lines, for every view. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_BRANCHES = {False: ("├─ ", "│  "), True: ("└─ ", "   ")}
"""The line to an item of a tree, and the indentation of its children. True for the last child."""

_LEVELS_MAX = 20
"""Deeper levels are drawn like this one."""


class TreeLine(NamedTuple, Generic[T]):
    """An item in its place in a tree. No dataclass: commands load this module at their start."""

    row: T
    branch: str = ""
    """The line that leads to it, as `│  └─ `."""
    depth: int = 0
    children: int = 0
    folded: int = 0
    """The number of descendants that are hidden below it."""
    gone: bool = False
    """The item is no longer in the list, but its line stays in its place until the list rests."""


class Forest(Generic[T]):
    """Some items, each below the nearest of them above it. Parents may form a cycle: its first member is then a root.

    `id_of` and `parent_of` give the ids of an item and of its parent (None if it has none). `known`: all items by id,
    if parents of the items may be among others.
    """

    def __init__(
        self,
        items: Iterable[T],
        id_of: Callable[[T], str],
        parent_of: Callable[[T], str | None],
        known: Mapping[str, T] | None = None,
    ) -> None:
        self._parent_of = parent_of
        self._items = {id_of(item): item for item in items}
        self._known = self._items if known is None else known
        self._below: dict[str | None, list[str]] = {}
        nearest: dict[str, str | None] = {}
        for id, item in self._items.items():
            self._below.setdefault(self._parent_among_items(id, item, nearest), []).append(id)

    def _parent_among_items(self, own: str, item: T, nearest: dict[str, str | None]) -> str | None:
        passed, seen, parent = list[str](), {own}, self._parent_of(item)
        while parent is not None and parent not in self._items:
            if parent in nearest:
                parent = nearest[parent]
                break
            above = self._known.get(parent)
            if above is None or parent in seen:
                parent = None
                break
            seen.add(parent)
            passed.append(parent)
            parent = self._parent_of(above)
        nearest.update(dict.fromkeys(passed, parent))
        return None if parent == own else parent

    def below(self, id: str) -> list[T]:
        """The items below the one with that id, each parent before its children."""
        return [self._items[below] for below in self._tree(id, set())[1:]]

    def _order(self) -> list[str]:
        order, seen = list[str](), set[str]()
        for root in (*self._below.get(None, ()), *self._items):  # no root leads to the members of cycles
            if root in seen:
                continue
            if root in self._below:
                order += self._tree(root, seen)
            else:
                seen.add(root)
                order.append(root)
        return order

    def _tree(self, root: str, seen: set[str]) -> list[str]:
        order, stack = list[str](), [root]
        while stack:
            id = stack.pop()
            if id not in seen:
                seen.add(id)
                order.append(id)
                stack.extend(reversed(self._below.get(id, ())))
        return order

    def sort(self, rank: Callable[[T], int]) -> None:
        """Order siblings by the least rank of each one and its descendants."""
        ranks: dict[str, int] = {}
        for id in reversed(self._order()):
            below = [ranks[child] for child in self._below.get(id, ()) if child in ranks]
            ranks[id] = min([rank(self._items[id]), *below])
        for siblings in self._below.values():
            siblings.sort(key=ranks.__getitem__)
        self._items = {id: self._items[id] for id in sorted(self._items, key=ranks.__getitem__)}

    def lines(self, folded: Collection[str] = ()) -> list[TreeLine[T]]:
        """The items in order, without those below the `folded` ones."""
        order = self._order()
        place = {id: number for number, id in enumerate(order)}
        # A member of a cycle may be its own descendant.
        drawn = {
            id: [child for child in below if place[child] > place[id]]
            for id, below in self._below.items()
            if id is not None
        }
        sizes = dict.fromkeys(order, 1)
        for id in reversed(order):
            if id in drawn:
                sizes[id] += sum(sizes[child] for child in drawn[id])
        placed = list[TreeLine[T]]()
        indents: dict[str, tuple[str, str, int]] = {}
        hidden_until = -1
        for number, id in enumerate(order):
            if number < hidden_until:
                continue
            branch, indent, depth = indents.get(id, ("", "", 0))
            nested = drawn.get(id, [])
            is_folded = bool(nested) and id in folded
            hidden = sizes[id] - 1 if is_folded else 0
            placed.append(TreeLine(self._items[id], branch, depth, len(nested), hidden))
            if is_folded:
                hidden_until = number + sizes[id]
                continue
            for child in nested:
                corner, more = _BRANCHES[child is nested[-1]]
                deeper = indent if depth >= _LEVELS_MAX else indent + more
                indents[child] = indent + corner, deeper, depth + 1
        return placed
