"""Matches texts against the patterns of permission rules, in which `*` stands for anything. Pure."""

from collections.abc import Sequence


class UncertainMatch(Exception):
    """A deny rule may match or not, so a person must decide."""


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern covers the whole text; `*` stands for any characters, or none."""
    return pieces_match(pattern.split("*"), text)


def pieces_match(pieces: Sequence[str], text: str) -> bool:
    """The same for a pattern that is split at its `*`. Takes linear time: a piece is never moved back."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
