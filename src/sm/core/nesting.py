"""The nesting limit of JSON from outside. orjson parses deeper values than it serializes."""

from collections.abc import Iterable

DEPTH_MAX = 100


def is_shallow(value: object) -> bool:
    """True if `value` is nested at most `DEPTH_MAX` levels deep."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return True
    return False


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
