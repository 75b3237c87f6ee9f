"""Finds phrases of the vocabulary in sentences."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from sm.monitor.completion.message import Sentence
from sm.monitor.completion.words import KINDS, Words

_CLAUSE_END = re.compile(r"[,;:.!?()，；：。！？、،؛|–—]+|\bbut\b|\baber\b|\bmais\b|\bpero\b")

_CLAIMS = frozenset({"done", "work"})
_BLANK = re.compile(r"\[(?:\\.|[^\]])*\]| [*?]?")


@dataclass(frozen=True, slots=True)
class Found:
    """A phrase in a sentence of the message."""

    sentence: Sentence
    start: int
    end: int

    @property
    def words(self) -> str:
        return self.sentence.words[self.start : self.end]


def _any_blanks(part: re.Match[str]) -> str:
    """A blank of a phrase stands for one or more in the sentence; code and quotes leave many."""
    return {" ": " +", " ?": " *"}.get(part.group(), part.group())


@dataclass(frozen=True, slots=True)
class _Index:
    """The phrases of a language by the first two letters of a word: few words of a text begin like a phrase."""

    begins: Mapping[str, re.Pattern[str]]
    """By kind: phrases that begin a sentence."""
    words: Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]
    """By one or two letters: kinds with their phrases that a word can begin with these letters."""
    anywhere: Mapping[str, re.Pattern[str]]
    """By kind: all other phrases."""


@cache
def _index(words: Words) -> _Index:
    begins: dict[str, list[str]] = {}
    by_prefix: dict[tuple[str, str], list[str]] = {}
    anywhere: dict[str, list[str]] = {}
    for kind in KINDS:
        for phrase in words.phrases(kind):
            expression = _BLANK.sub(_any_blanks, phrase.removeprefix("^"))
            prefixes = _prefixes(phrase) if words.whole_words else None
            if phrase.startswith("^") or kind == "inquiry":
                begins.setdefault(kind, []).append(expression)
            elif prefixes is None:
                anywhere.setdefault(kind, []).append(expression)
            else:
                for prefix in prefixes:
                    by_prefix.setdefault((prefix, kind), []).append(expression)
    before, behind = ("(?<!\\w)", "(?!\\w)") if words.whole_words else ("", "")
    starts: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for (prefix, kind), phrases in by_prefix.items():
        starts.setdefault(prefix, []).append((kind, _compiled(phrases, "", behind)))
    return _Index(
        {kind: _compiled(phrases, "", behind) for kind, phrases in begins.items()},
        starts,
        {kind: _compiled(phrases, before, behind) for kind, phrases in anywhere.items()},
    )


def _compiled(phrases: Sequence[str], before: str, behind: str) -> re.Pattern[str]:
    return re.compile(f"{before}(?:{'|'.join(phrases)}){behind}")


def _prefixes(phrase: str) -> set[str] | None:
    """The first one or two characters of every text that the phrase matches. None: they are not known."""
    if phrase.startswith("(?:"):
        choices, end = _choices(phrase)
        rest = phrase[end:]
        if rest[:1] in ("*", "+", "{"):
            return None
        if rest[:1] == "?":
            rest = rest[1:]
            choices.append("")
        found: set[str] = set()
        for choice in choices:
            prefixes = _prefixes(choice + rest)
            if prefixes is None:
                return None
            found |= prefixes
        return found
    if phrase.startswith(("\\d+", "\\d ", "[1-9]")):
        return set("0123456789")
    if not phrase[:1].isalnum() or phrase[1:2] in ("?", "*", "+", "{"):
        return None
    second = phrase[1:2]
    literal = (second.isalnum() or second in (" ", "'", "-")) and phrase[2:3] not in ("?", "*", "{")
    return {phrase[:2] if second and literal else phrase[0]}


def _choices(phrase: str) -> tuple[list[str], int]:
    """The alternatives of the group that `phrase` begins with, and the position behind the group."""
    depth, at, begin = 0, 0, 3
    choices: list[str] = []
    while True:
        match phrase[at]:
            case "\\":
                at += 1
            case "[":
                at = phrase.index("]", at + 2)
            case "(":
                depth += 1
            case "|" if depth == 1:
                choices.append(phrase[begin:at])
                begin = at + 1
            case ")":
                depth -= 1
                if depth == 0:
                    return [*choices, phrase[begin:at]], at + 1
            case _:
                pass
        at += 1


_WORD = re.compile(r"\w+")


@lru_cache(maxsize=256)
def _matches(words: Words, text: str) -> Mapping[str, Sequence[re.Match[str]]]:
    """Every phrase in the sentence `text`, by kind, in the order of their places."""
    index = _index(words)
    found: dict[str, list[re.Match[str]]] = {}
    for kind, expression in index.begins.items():
        match = expression.match(text)
        if match is not None:
            found.setdefault(kind, []).append(match)
    for word in _WORD.finditer(text) if index.words else ():
        at = word.start()
        for prefix in (text[at : at + 2], text[at]):
            for kind, expression in index.words.get(prefix, ()):
                match = expression.match(text, at)
                if match is not None:
                    found.setdefault(kind, []).append(match)
    for kind, expression in index.anywhere.items():
        others = list(expression.finditer(text))
        if others:
            found[kind] = sorted([*found.get(kind, ()), *others], key=re.Match.start)
    return found


def find(kind: str, languages: Sequence[Words], sentences: Sequence[Sentence]) -> Iterator[Found]:
    """Every phrase of `kind` in the sentences, in the order of the sentences."""
    for sentence in sentences:
        for words in languages:
            for found in _matches(words, sentence.words).get(kind, ()):
                yield Found(sentence, found.start(), found.end())


def claims(kind: str, languages: Sequence[Words], sentences: Sequence[Sentence]) -> Iterator[Found]:
    """Like `find`, without the phrases that a word of their clause takes back, such as `not` or `once`."""
    for sentence in sentences:
        for words in languages:
            for found in _matches(words, sentence.words).get(kind, ()):
                if not _taken_back(words, sentence.words, found):
                    yield Found(sentence, found.start(), found.end())


def first_phrases(languages: Sequence[Words], sentence: Sentence) -> Mapping[str, int]:
    """The kinds of phrases in the sentence, each with the place of its first phrase. Like `claims` for claims."""
    places: dict[str, int] = {}
    for words in languages:
        for kind, matches in _matches(words, sentence.words).items():
            if kind not in places:
                for found in matches:
                    if kind not in _CLAIMS or not _taken_back(words, sentence.words, found):
                        places[kind] = found.start()
                        break
    return places


def _taken_back(words: Words, text: str, found: re.Match[str]) -> bool:
    """Look for a word of `unless` in the clause before the phrase and in the phrase itself."""
    begin = 0
    for mark in _CLAUSE_END.finditer(text, 0, found.start()):
        begin = mark.end()
    end = found.end()
    if words.negates_behind:
        behind = _CLAUSE_END.search(text, end)
        end = behind.start() if behind is not None else len(text)
    return any(
        begin <= word.start() < end and (word.start() < found.start() or word.group() not in _PART_OF_SUCCESS)
        for word in _matches(words, text).get("unless", ())
    )


_PART_OF_SUCCESS = frozenset(
    {"without", "never", "sans", "sin", "no", "sem", "senza", "bez", "без", "after", "instead of"}
)
"""Words of `unless` that a phrase may contain: `builds without warnings`."""
