"""Finds the concepts of words, such as `remain` or `fail`, in many languages. They are data: `words/concepts.txt`."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache, lru_cache
from pathlib import Path
from typing import Self

from sm.core.dataclass import dataclass

_FILE = Path(__file__).with_name("words") / "concepts.txt"
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[?:;,.!。！？、，؟।]")
_FIRST_OF_OTHER_SCRIPTS = "\u0590"
"""Letters of scripts that write words together or attach particles: concepts count inside of their words."""
_VIETNAMESE = re.compile("[ạ-ỹ]")
_LONGEST_PHRASE = 3
_TELLING_NUMBERS = frozenset({"0", "100", "401", "403", "404", "500", "502", "503"})
"""Numbers that are features. All others are one."""
_MARKS = frozenset("?:;,.!。！？、，؟।")
_STEM, _STEM_MIN = 5, 6
_LETTERS = "\u0500"
"""The first letter behind the Latin, Greek and Cyrillic ones. Only words in these have stems."""
_REMEMBERED = 8_192
"""Words whose terms are remembered: texts consist of the same words."""


@dataclass(frozen=True, slots=True)
class _Table:
    words: Mapping[str, Sequence[str]]
    """Words, and phrases of two or three words."""
    second_words: Mapping[str, Set[str]]
    """By the first word of phrases."""
    stems: Mapping[str, Sequence[str]]
    inner: Mapping[str, Sequence[tuple[str, Sequence[str]]]]
    """By their first letter, the longest first."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word or a mark, and the names of its features."""

    text: str
    """The word. All numbers are one word."""
    concepts: Sequence[tuple[str, str]]
    """Each with its feature."""
    stem: str
    """The feature of all words that begin alike, or empty if the word is short or of another script."""
    is_mark: bool
    is_compound: bool
    """A word of a script that writes words together. Its parts have concepts."""

    @classmethod
    def of(cls, text: str, concepts: Sequence[str]) -> Self:
        stem = f"{text[:_STEM]}*" if len(text) >= _STEM_MIN and text[0] < _LETTERS else ""
        tagged = [(concept, f"#{concept}") for concept in concepts]
        is_mark = text in _MARKS
        return cls(text, tagged, stem, is_mark, text >= _FIRST_OF_OTHER_SCRIPTS and not is_mark)


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
    second_words: dict[str, set[str]] = {}
    for first, second, *_ in (word.split(" ") for word in words if " " in word):
        second_words.setdefault(first, set()).add(second)
    return _Table(words, second_words, stems, by_letter)


def terms(text: str) -> Sequence[tuple[Term, int]]:
    """The words and marks of `text`, which is in lower case, each with its place."""
    table = _table()
    found: list[tuple[Term, int]] = []
    tokens = list(_TOKEN.finditer(text))
    behind = 0  # the phrase before
    for at, token in enumerate(tokens):
        if at < behind:
            continue
        word = token[0]
        term = _term(word)
        if word in table.second_words:
            phrase = _phrase(table, word, tokens[at + 1 : at + _LONGEST_PHRASE])
            if phrase:
                term = Term.of(word, table.words[phrase])
                behind = at + phrase.count(" ") + 1
        elif term.is_compound:
            found += _parts(table, word, token.start())
            continue
        found.append((term, token.start()))
    return found


def _phrase(table: _Table, first: str, others: Sequence[re.Match[str]]) -> str:
    """The longest phrase that begins with these words, or empty if none does."""
    if others and others[0][0] in table.second_words[first]:
        words = [first, *(other[0] for other in others)]
        for length in range(len(words), 1, -1):
            phrase = " ".join(words[:length])
            if phrase in table.words:
                return phrase
    return ""


@lru_cache(maxsize=_REMEMBERED)
def _term(word: str) -> Term:
    number = word < _FIRST_OF_OTHER_SCRIPTS and word.isdigit() and word not in _TELLING_NUMBERS
    return Term.of("1" if number else word, _concepts(word))


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


def _parts(table: _Table, word: str, start: int) -> Iterator[tuple[Term, int]]:
    """The concepts inside of a word, one term for each; the word itself if there is none."""
    at, none = 0, True
    while at < len(word):
        for part, concepts in table.inner.get(word[at], ()):
            if word.startswith(part, at):
                yield Term.of(part, concepts), start + at
                at += len(part)
                none = False
                break
        else:
            at += 1
    if none:
        yield Term.of(word, ()), start
