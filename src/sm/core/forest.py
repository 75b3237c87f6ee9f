"""Trees of sessions as lines, for every view. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
        self._id_of, self._parent_of = id_of, parent_of
        self._items = {id_of(item): item for item in items}
        self._known = self._items if known is None else known
        self._below: dict[str | None, list[T]] = {}
        nearest: dict[str, str | None] = {}
        for item in self._items.values():
            self._below.setdefault(self._parent_among_items(item, nearest), []).append(item)

    def _parent_among_items(self, item: T, nearest: dict[str, str | None]) -> str | None:
        own = self._id_of(item)
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

    def preorder(self) -> list[T]:
        """Each parent before its children."""
        order, seen = list[T](), set[str]()

        def visit(root: T) -> None:
            stack = [root]
            while stack:
                item = stack.pop()
                if self._id_of(item) not in seen:
                    seen.add(self._id_of(item))
                    order.append(item)
                    stack.extend(reversed(self._below.get(self._id_of(item), ())))

        for root in self._below.get(None, ()):
            visit(root)
        for item in self._items.values():  # members of cycles, which no root leads to
            if self._id_of(item) not in seen:
                visit(item)
        return order

    def sort(self, rank: Callable[[T], int]) -> None:
        """Order siblings by the least rank of each one and its descendants."""
        ranks: dict[str, int] = {}
        for item in reversed(self.preorder()):
            below = (
                ranks[i]
                for child in self._below.get(self._id_of(item), ())
                if (i := self._id_of(child)) in ranks
            )
            ranks[self._id_of(item)] = min(rank(item), *below, rank(item))
        for siblings in self._below.values():
            siblings.sort(key=lambda item: ranks[self._id_of(item)])
        self._items = dict(sorted(self._items.items(), key=lambda entry: ranks[entry[0]]))

    def lines(self, folded: Collection[str] = ()) -> list[TreeLine[T]]:
        """The items in order, without those below the `folded` ones."""
        order = self.preorder()
        drawn = self._drawn_below(order)
        sizes: dict[str, int] = {}
        for item in reversed(order):
            sizes[self._id_of(item)] = 1 + sum(
                sizes[self._id_of(c)] for c in drawn.get(self._id_of(item), ())
            )
        placed = list[TreeLine[T]]()
        indents: dict[str, tuple[str, str, int]] = {}
        hidden_until = -1
        for number, item in enumerate(order):
            if number < hidden_until:
                continue
            id = self._id_of(item)
            branch, indent, depth = indents.get(id, ("", "", 0))
            nested = drawn.get(id, [])
            is_folded = bool(nested) and id in folded
            placed.append(TreeLine(item, branch, depth, len(nested), sizes[id] - 1 if is_folded else 0))
            if is_folded:
                hidden_until = number + sizes[id]
                continue
            for child in nested:
                corner, more = _BRANCHES[child is nested[-1]]
                deeper = indent if depth >= _LEVELS_MAX else indent + more
                indents[self._id_of(child)] = indent + corner, deeper, depth + 1
        return placed

    def _drawn_below(self, order: Sequence[T]) -> dict[str, list[T]]:
        """The children of each item that are drawn below it: a member of a cycle may be its own descendant."""
        place = {self._id_of(item): number for number, item in enumerate(order)}
        return {
            parent: [child for child in children if place[self._id_of(child)] > place[parent]]
            for parent, children in self._below.items()
            if parent is not None
        }
