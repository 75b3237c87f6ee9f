"""Finds the words that differ between a deleted line and the line that replaces it. Pure.

The work for a line is limited: an agent chooses the texts.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_LINE_MAX = 500
_MIDDLE_MAX = 30
"""Words between the first and the last that differ. Comparing more takes cubic time in the worst case."""
_SIMILAR = 0.4
"""The least share of characters that two lines have in common, so that one counts as the other one changed."""
_TRIED = 5
"""The number of added lines with which a deleted line is compared."""

Spans = Sequence[tuple[int, int]]
"""Places of changed words in a line: the first character of each, and the one behind it."""


def changed_words(deleted: Sequence[str], added: Sequence[str]) -> tuple[dict[int, Spans], dict[int, Spans]]:
    """The changed words of deleted lines and of the added lines after them, by the number of the line.

    A line that resembles no line of the other side is left out.
    """
    before, after = dict[int, Spans](), dict[int, Spans]()
    first = 0
    for number, text in enumerate(deleted):
        for other in range(first, min(first + _TRIED, len(added))):
            if (spans := _compared(text, added[other])) is not None:
                before[number], after[other] = spans
                first = other + 1
                break
    return before, after


def _compared(old: str, new: str) -> tuple[Spans, Spans] | None:
    """The words that differ, or None if the lines have too little in common."""
    if max(len(old), len(new)) > _LINE_MAX:
        return None
    a, b = _WORD.findall(old), _WORD.findall(new)
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = a[begin : len(a) - end], b[begin : len(b) - end]
    ranges = list(_differences(*middle))
    differs = [sum(len(word.strip()) for i, j in part for word in words[i:j]) for part, words in (
        ([(i1, i2) for i1, i2, _, _ in ranges], middle[0]), ([(j1, j2) for _, _, j1, j2 in ranges], middle[1]),
    )]  # fmt: skip
    sizes = [sum(len(word.strip()) for word in words) for words in (a, b)]
    if sum(sizes) - sum(differs) < _SIMILAR * sum(sizes) or not all(sizes):
        return None
    return (
        _places(a, [(begin + i1, begin + i2) for i1, i2, _, _ in ranges]),
        _places(b, [(begin + j1, begin + j2) for _, _, j1, j2 in ranges]),
    )


def _differences(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    if max(len(a), len(b)) > _MIDDLE_MAX:
        yield 0, len(a), 0, len(b)
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield i1, i2, j1, j2


def _places(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> Spans:
    """The characters of ranges of words. Ranges with only blanks between them become one."""
    starts = [0, *accumulate(map(len, words))]
    found = list[tuple[int, int]]()
    last = 0
    for begin, end in ranges:
        if begin == end:
            continue
        if found and not "".join(words[last:begin]).strip():
            found[-1] = found[-1][0], starts[end]
        else:
            found.append((starts[begin], starts[end]))
        last = end
    return found
