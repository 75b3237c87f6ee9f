"""Matches texts against the patterns of permission rules, in which `*` matches any characters. Pure."""

from collections.abc import Sequence


class UncertainMatch(Exception):
    """The match of a deny rule is uncertain, so a person must decide."""


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches the whole text; `*` matches any characters, or none."""
    return pieces_match(pattern.split("*"), text)


def pieces_match(pieces: Sequence[str], text: str) -> bool:
    """Like `matches`, for a pattern split at its `*`. Takes linear time: there is no backtracking."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        position = text.find(piece, at, end)
        if position < 0:
            return False
        at = position + len(piece)
    return True
