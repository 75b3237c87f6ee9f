"""Bounds what a link remembers. Pure."""

from typing import TypeVar

_KEPT = 1_000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def keep(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Remember a value as the newest one, and forget the oldest above the limit."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
