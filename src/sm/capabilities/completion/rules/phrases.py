"""Finds phrases of the vocabulary in sentences."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from sm.capabilities.completion.rules.message import Sentence
from sm.capabilities.completion.rules.words import KINDS, Words
from sm.core.dataclass import dataclass

_CLAUSE_END = re.compile(r"[,;:.!?()，；：。！？、،؛|–—]+|\bbut\b|\baber\b|\bmais\b|\bpero\b")
_CLAIMS = frozenset({"done", "work"})
_BLANK = re.compile(r"\[(?:\\.|[^\]])*\]| [*?]?")
_SEARCHED = tuple(kind for kind in KINDS if kind != "inquiry")
"""Kinds of phrases in sentences."""
_PHRASE = 1
"""The group of an expression that holds the phrase."""

Matches = Mapping[str, Sequence[re.Match[str]]]
"""Phrases in a sentence, by kind, in the order of their places."""


@dataclass(frozen=True, slots=True)
class Found:
    """A phrase in a sentence of the message."""

    sentence: Sentence
    start: int
    end: int

    @property
    def words(self) -> str:
        return self.sentence.words[self.start : self.end]


class Phrases:
    """The phrases in the sentences of one message. Each sentence is searched once."""

    def __init__(self, languages: Sequence[Words]) -> None:
        self._languages = languages
        self._found: dict[str, Sequence[tuple[Words, Matches]]] = {}

    def find(self, kind: str, sentences: Sequence[Sentence]) -> Iterator[Found]:
        """Every phrase of `kind` in the sentences, in the order of the sentences."""
        known = self._found
        for sentence in sentences:
            for _, matches in known.get(sentence.words) or self._search(sentence.words):
                if kind in matches:
                    for found in matches[kind]:
                        yield Found(sentence, found.start(), found.end(_PHRASE))

    def claims(self, kind: str, sentences: Sequence[Sentence]) -> Iterator[Found]:
        """Like `find`, without the phrases that a word of their clause takes back, such as `not` or `once`."""
        for sentence in sentences:
            for words, matches in self._found.get(sentence.words) or self._search(sentence.words):
                for found in matches.get(kind, ()):
                    if not _is_taken_back(words, matches, sentence.words, found):
                        yield Found(sentence, found.start(), found.end(_PHRASE))

    def first(self, sentence: Sentence) -> Mapping[str, int]:
        """The kinds of phrases in the sentence, each with the place of its first phrase. Like `claims` for claims."""
        places: dict[str, int] = {}
        for words, matches in self._found.get(sentence.words) or self._search(sentence.words):
            for kind, of_kind in matches.items():
                if kind not in places:
                    for found in of_kind:
                        if kind not in _CLAIMS or not _is_taken_back(words, matches, sentence.words, found):
                            places[kind] = found.start()
                            break
        return places

    def _search(self, text: str) -> Sequence[tuple[Words, Matches]]:
        found = self._found[text] = [(words, _matches(words, text)) for words in self._languages]
        return found


def is_inquiry(languages: Sequence[Words], task: str) -> bool:
    """Detect a task in lower case that asks for a text."""
    return any(_expression(words, "inquiry").match(task) for words in languages)


@cache
def _expression(words: Words, kind: str) -> re.Pattern[str]:
    """Compile all phrases of one kind. Of those that match at a place, the first of the list is found."""
    choices = "|".join(_BLANK.sub(_any_blanks, phrase) for phrase in words.phrases(kind)) or "(?!)"
    if not words.whole_words:
        return re.compile(f"({choices})")
    # The look-ahead consumes nothing, so phrases that begin at different words may overlap.
    return re.compile(rf"(?<!\w)(?=((?:{choices})(?!\w)))")


def _any_blanks(part: re.Match[str]) -> str:
    """A blank of a phrase stands for one or more in the sentence; code and quotes leave many."""
    return {" ": " +", " ?": " *"}.get(part.group(), part.group())


def _matches(words: Words, text: str) -> Matches:
    """Every phrase in the sentence `text`."""
    return {kind: found for kind in _SEARCHED if (found := list(_expression(words, kind).finditer(text)))}


def _is_taken_back(words: Words, matches: Matches, text: str, found: re.Match[str]) -> bool:
    """Look for a word of `unless` in the clause before the phrase and in the phrase itself."""
    unless = matches.get("unless")
    if unless is None:
        return False
    begin = 0
    for mark in _CLAUSE_END.finditer(text, 0, found.start()):
        begin = mark.end()
    end = found.end(_PHRASE)
    if words.negates_behind:
        behind = _CLAUSE_END.search(text, end)
        end = behind.start() if behind is not None else len(text)
    return any(
        begin <= word.start() < end
        and (word.start() < found.start() or word.group(_PHRASE) not in _PART_OF_SUCCESS)
        for word in unless
    )


_PART_OF_SUCCESS = frozenset(
    {"without", "never", "sans", "sin", "no", "sem", "senza", "bez", "без", "after", "instead of"}
)
"""Words of `unless` that a phrase may contain: `builds without warnings`."""
