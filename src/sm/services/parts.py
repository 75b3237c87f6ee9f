"""Hands use cases to the handlers of a door: to each handler those that its signature names."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


@cache
def parts_of(taker: Callable[..., Any]) -> Mapping[str, type]:
    """The types of the keyword-only parameters of a handler or a class, by their names: the use cases that it takes."""
    if is_dataclass(taker):  # its constructor is compiled at the first call
        hints = get_type_hints(taker)
        return {each.name: hints[each.name] for each in fields(taker) if each.kw_only}
    hints = get_type_hints(taker.__init__ if isinstance(taker, type) else taker)  # type: ignore[misc]
    parameters = inspect.signature(taker).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


class DoorParts:
    """The use cases that a door offers."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts
        self._found: dict[type, object] = {}
        """The part of each type that was wanted before."""

    def plus(self, *parts: object) -> "DoorParts":
        return DoorParts(*self._parts, *parts)

    def bound(self, taker: Callable[..., T]) -> Callable[..., T]:
        """The handler or the class with its use cases. Raises TypeError as `given`."""
        return partial(taker, **self.given(parts_of(taker)))

    def given(self, wanted: Mapping[str, type]) -> dict[str, Any]:
        """The use cases for `parts_of`. Raises TypeError for a type that no or more than one of them has."""
        return {name: self._one(kind) for name, kind in wanted.items()}

    def _one(self, kind: type) -> object:
        if kind not in self._found:
            found = [part for part in self._parts if isinstance(part, kind)]
            if len(found) != 1:
                raise TypeError(f"{len(found)} parts are a {kind.__name__}")
            self._found[kind] = found[0]
        return self._found[kind]
