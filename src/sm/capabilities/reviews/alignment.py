"""Finds the lines of a text in a copy of it from which a person has deleted lines, or changed some. Pure."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence


def aligned(original: Sequence[str], edited: Sequence[str]) -> list[int | None]:
    """The index in `original` of each line of `edited`, rising, or None for a line that is none of them.

    Lines that occur once in both decide where the others belong, as in a patience diff. A changed line has the index
    of the one that it replaces, if as many lines stand in its place.
    """
    found: list[int | None] = [None] * len(edited)
    ranges = [(0, len(original), 0, len(edited))]
    while ranges:
        a, a_end, b, b_end = ranges.pop()
        while a < a_end and b < b_end and original[a] == edited[b]:
            found[b] = a
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and original[a_end - 1] == edited[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            found[b_end] = a_end
        if a == a_end or b == b_end:
            continue
        anchors = _anchors(original, a, a_end, edited, b, b_end)
        if not anchors:
            _match_in_order(original, a, a_end, edited, b, b_end, found)
            continue
        for at, place in anchors:
            found[place] = at
            ranges.append((a, at, b, place))
            a, b = at + 1, place + 1
        ranges.append((a, a_end, b, b_end))
    _replace(found, len(original))
    return found


def _anchors(
    original: Sequence[str], a: int, a_end: int, edited: Sequence[str], b: int, b_end: int
) -> list[tuple[int, int]]:
    """The longest rising sequence of pairs of lines that occur once in both ranges."""
    once = [
        {line for line, n in Counter(part).items() if n == 1} for part in (original[a:a_end], edited[b:b_end])
    ]
    common = once[0] & once[1]
    places = {edited[i]: i for i in range(b, b_end) if edited[i] in common}
    pairs = [(i, places[original[i]]) for i in range(a, a_end) if original[i] in common]
    ends: list[int] = []  # the smallest last place of a rising sequence, by its length
    chains: list[int] = []  # the index of its last pair
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(chains[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        chains[length : length + 1] = [index]
    found, index = [], chains[-1] if chains else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _match_in_order(
    original: Sequence[str],
    a: int,
    a_end: int,
    edited: Sequence[str],
    b: int,
    b_end: int,
    found: list[int | None],
) -> None:
    """Match lines that occur several times with the first ones that are left."""
    places = defaultdict[str, list[int]](list)
    for i in range(a, a_end):
        places[original[i]].append(i)
    for place in range(b, b_end):
        left = places.get(edited[place], [])
        if (index := bisect_left(left, a)) < len(left):
            found[place], a = left[index], left[index] + 1


def _replace(found: list[int | None], count: int) -> None:
    """Give changed lines the indexes of the lines between their neighbours, if there are as many."""
    last, begin = -1, 0
    for end, at in enumerate([*found, count]):
        if at is None:
            continue
        if end > begin and at - last - 1 == end - begin:
            found[begin:end] = range(last + 1, at)
        last, begin = at, end + 1
