"""A faster `dataclasses.replace`, for values that are replaced with each message of an agent."""

from typing import Any, TypeVar

T = TypeVar("T")


def replaced(value: T, **changes: Any) -> T:
    """A copy of a frozen dataclass without slots, with these fields changed. Their names are not checked."""
    copy = object.__new__(type(value))
    copy.__dict__.update(value.__dict__, **changes)
    return copy
