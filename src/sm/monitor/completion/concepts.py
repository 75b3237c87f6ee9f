"""Finds the concepts of words, such as `remain` or `fail`, in many languages. They are data: `words/concepts.txt`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("words") / "concepts.txt"
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[?:;,.!。！？、，؟।]")
_FIRST_OF_OTHER_SCRIPTS = "\u0590"
"""Letters of scripts that write words together or attach particles: concepts count inside of their words."""
_VIETNAMESE = re.compile("[ạ-ỹ]")
_LONGEST_PHRASE = 3
_TELLING_NUMBERS = frozenset({"0", "100", "401", "403", "404", "500", "502", "503"})
"""Numbers that are features. All others are one."""
PUNCTUATION = frozenset("?:;,.!。！？、，؟।")


@dataclass(frozen=True, slots=True)
class _Table:
    words: Mapping[str, Sequence[str]]
    phrase_begins: frozenset[str]
    stems: Mapping[str, Sequence[str]]
    inner: Mapping[str, Sequence[tuple[str, Sequence[str]]]]
    """By their first letter, the longest first."""


class Token(NamedTuple):
    """A word or a mark, where it begins, and its concepts."""

    text: str
    start: int
    concepts: Sequence[str]


@cache
def _table() -> _Table:
    words: dict[str, list[str]] = {}
    stems: dict[str, list[str]] = {}
    inner: dict[str, list[str]] = {}
    text = _FILE.read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        concept, _, entries = line.partition(":")
        for entry in entries.split():
            word = entry.replace("_", " ").strip()
            if max(word) >= _FIRST_OF_OTHER_SCRIPTS and not _VIETNAMESE.match(max(word)):
                table = inner
            elif word.endswith("*"):
                word, table = word[:-1], stems
            else:
                table = words
            of_word = table.setdefault(word, [])
            if concept not in of_word:
                of_word.append(concept)
    by_letter: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for word in sorted(inner, key=len, reverse=True):
        by_letter.setdefault(word[0], []).append((word, inner[word]))
    begins = frozenset(word.partition(" ")[0] for word in words if " " in word)
    return _Table(words, begins, stems, by_letter)


def tokens(text: str) -> Iterator[Token]:
    """The words and marks of `text`, which is in lower case."""
    table = _table()
    found = list(_TOKEN.finditer(text))
    at = 0
    while at < len(found):
        word, start = found[at].group(), found[at].start()
        if word in table.phrase_begins:
            for length in range(_LONGEST_PHRASE, 1, -1):
                phrase = " ".join(match.group() for match in found[at : at + length])
                if phrase in table.words and " " in phrase:
                    yield Token(word, start, table.words[phrase])
                    at += length
                    break
            else:
                yield Token(word, start, _concepts(word))
                at += 1
            continue
        if word[0] < _FIRST_OF_OTHER_SCRIPTS or word in PUNCTUATION:
            number = word.isdigit() and word not in _TELLING_NUMBERS
            yield Token("1" if number else word, start, _concepts(word))
        else:
            yield from _parts(table, word, start)
        at += 1


@lru_cache(maxsize=8_192)
def _concepts(word: str) -> Sequence[str]:
    table = _table()
    known = table.words.get(word)
    if known is not None:
        return known
    if word.isdigit():
        return ("none",) if word == "0" else ("number",)
    for end in range(len(word), 1, -1):
        known = table.stems.get(word[:end])
        if known is not None:
            return known
    return ("not",) if word.endswith("n't") else ()


def _parts(table: _Table, word: str, start: int) -> Iterator[Token]:
    """The concepts inside of a word, one token for each; the word itself if there is none."""
    at, none = 0, True
    while at < len(word):
        for part, concepts in table.inner.get(word[at], ()):
            if word.startswith(part, at):
                yield Token(part, start + at, concepts)
                at += len(part)
                none = False
                break
        else:
            at += 1
    if none:
        yield Token(word, start, ())
