"""The part of a text around the words that a search looked for. Pure."""

from collections.abc import Iterable

from sm.core.text import folded

EXCERPT_MAX = 160


def excerpt(text: str, words: Iterable[str]) -> str:
    """One line without control characters, with the first of the words that occurs literally near its beginning.

    Takes time for each word: pass few, and a text of limited length.
    """
    lower = text.lower()
    # For some letters the lower case is longer, so the place may be off by a few characters.
    places = [lower.find(word.strip('*"').lower()) for word in words if word.strip('*"')]
    first = min((place for place in places if place >= 0), default=0)
    start = max(0, first - EXCERPT_MAX // 4)
    cut = folded(text[start : start + 4 * EXCERPT_MAX], EXCERPT_MAX)
    return f"…{cut}" if start else cut
