"""Work that exists nowhere else, in the words that a person reads, with the files and commits that it consists of."""

from collections.abc import Collection, Iterable
from typing import Self

UNFINISHED = "an unfinished rebase, merge, cherry-pick or bisect"


class WorkPart(str):
    """A noun phrase for work of one kind. `items`: each file and commit of it, or the phrase itself."""

    __slots__ = ("items",)
    items: frozenset[str]

    def __new__(cls, text: str, items: Iterable[str] = ()) -> Self:
        part = super().__new__(cls, text)
        part.items = frozenset(items) or frozenset({text})
        return part


def files_part(text: str, paths: Iterable[str]) -> WorkPart:
    return WorkPart(text, (f"file {path}" for path in paths))


def items_of(parts: Iterable[WorkPart]) -> frozenset[str]:
    return frozenset(item for part in parts for item in part.items)


def not_given_up(parts: Iterable[WorkPart], given_up: Collection[str] | None) -> list[WorkPart]:
    """The parts with a file or a commit that a person has not given up. `given_up`: items, or None for nothing."""
    return [part for part in parts if given_up is None or not part.items <= frozenset(given_up)]
