r"""Matches texts of an agent CLI with the phrases of a data file: literal text with a few marks. Pure.

The mark `*` stands for any text, also none; `#` for a number; `{name}` for a text that is kept under this name, and
`{name:word}` for one without blanks. `\` before a mark makes it literal. A phrase is no regular expression: each part
is searched once, from left to right, so the time is bounded by the length of the phrase times that of the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from sm.core.dataclass import dataclass

_MARK = re.compile(r"\\(?P<literal>.)|(?P<any>\*)|(?P<number>#)|\{(?P<name>[a-z]+)(?P<word>:word)?\}")
_LENGTH_MAX = 200
_GAPS_MAX = 4
_LITERALS_MIN = 3
"""Characters without which a phrase could match a text of anybody."""


class InvalidPhrase(ValueError):
    """The message is a sentence for people, about one phrase."""


@dataclass(frozen=True, slots=True)
class _Part:
    gap: str | None
    """`*` for any text before the literal text, else the name of a text that is kept, and None at the beginning."""
    literal: re.Pattern[str]
    literal_at_end: re.Pattern[str]
    is_word: bool = False


@dataclass(frozen=True, slots=True)
class PhrasePlace:
    """The part of a text that a phrase matches."""

    start: int
    end: int
    kept: Mapping[str, str]
    """The kept texts by name."""


@dataclass(frozen=True, slots=True)
class _Phrase:
    parts: Sequence[_Part]

    def match(self, text: str, start: int = 0, *, ends: bool = True) -> PhrasePlace | None:
        """Match a text from `start`. `ends`: to its end."""
        kept: dict[str, str] = {}
        at = start
        for number, part in enumerate(self.parts):
            is_last = number == len(self.parts) - 1
            found = self._find(part, text, at, ends=ends and is_last)
            if found is None:
                return None
            if part.gap is not None and part.gap != "*":
                kept[part.gap] = text[at : found[0]]
                if not kept[part.gap] or (part.is_word and re.search(r"\s", kept[part.gap])):
                    return None
            at = found[1]
        return PhrasePlace(start, at, kept)

    def search(self, text: str, at: int) -> PhrasePlace | None:
        first = self.parts[0].literal
        # A phrase that begins with a gap is tried once: from each place it would take quadratic time.
        starts = (found.start() for found in first.finditer(text, at)) if first.pattern else [at]
        return next(filter(None, (self.match(text, start, ends=False) for start in starts)), None)

    @staticmethod
    def _find(part: _Part, text: str, at: int, *, ends: bool) -> tuple[int, int] | None:
        """Return where the literal text of a part begins and ends."""
        if part.gap is None:
            found = (part.literal_at_end if ends else part.literal).match(text, at)
            return None if found is None else found.span()
        if not part.literal.pattern:  # the phrase ends with a gap
            rest = re.compile(r"\S*").match(text, at) if part.is_word else None
            end = len(text) if rest is None else rest.end()
            return (end, end) if not ends or end == len(text) else None
        found = (part.literal_at_end if ends else part.literal).search(
            text, at if part.gap == "*" else at + 1
        )
        return None if found is None else found.span()


@cache
def _compile(text: str, *, wrapped: bool) -> _Phrase:
    parts: list[_Part] = []
    gap: str | None = None
    is_word = False
    literal: list[str] = []
    at = 0

    def end_part() -> None:
        nonlocal literal
        if literal or gap is not None or not parts:
            pattern = "".join(literal)
            parts.append(_Part(gap, re.compile(pattern), re.compile(rf"{pattern}\Z"), is_word))
        literal = []

    for mark in _MARK.finditer(text):
        literal += _literal(text[at : mark.start()], wrapped=wrapped)
        at = mark.end()
        if mark["literal"] is not None:
            literal += _literal(mark["literal"], wrapped=wrapped)
        elif mark["number"]:
            literal.append(r"\d{1,9}")
        else:
            end_part()
            gap, is_word = mark["name"] or "*", bool(mark["word"])
    literal += _literal(text[at:], wrapped=wrapped)
    end_part()
    return _Phrase(tuple(parts))


def _literal(text: str, *, wrapped: bool) -> list[str]:
    return [r"\s*" if wrapped and sign == " " else re.escape(sign) for sign in text]


@dataclass(frozen=True, slots=True)
class PhraseList:
    """Alternative phrases, of which the first one that matches counts."""

    texts: tuple[str, ...]

    def fit(self, text: str, *, wrapped: bool = False) -> Mapping[str, str] | None:
        """Match a whole text. Returns the kept texts by name, or None without a match.

        `wrapped`: a terminal may have wrapped the text within words and dropped blanks, so that blanks are optional.
        """
        for phrase in self.texts:
            found = _compile(phrase, wrapped=wrapped).match(text)
            if found is not None:
                return found.kept
        return None

    def places(self, text: str) -> Iterator[PhrasePlace]:
        """Yield the parts of a text that match, from left to right."""
        at = 0
        while at <= len(text):
            found = [_compile(phrase, wrapped=False).search(text, at) for phrase in self.texts]
            place = min(filter(None, found), key=lambda place: place.start, default=None)
            if place is None:
                return
            yield place
            at = max(place.end, place.start + 1)

    def within(self, text: str) -> bool:
        """Return whether the text matches from its beginning or behind one of its blanks."""
        starts = [0, *(blank.end() for blank in re.finditer(r"\s", text))]
        return any(self.fit(text[start:]) is not None for start in starts)


def check_phrase(text: str) -> None:
    """Raise InvalidPhrase for a phrase that is too long, has too many gaps, or would match nearly every text."""
    shown = f"{text[:60]!r}"
    if len(text) > _LENGTH_MAX:
        raise InvalidPhrase(f"the phrase {shown} has more than {_LENGTH_MAX} characters")
    marks = list(_MARK.finditer(text))
    if sum(not mark["literal"] and not mark["number"] for mark in marks) > _GAPS_MAX:
        raise InvalidPhrase(f"the phrase {shown} has more than {_GAPS_MAX} marks for any text")
    names = [mark["name"] for mark in marks if mark["name"]]
    if len(names) != len(set(names)):
        raise InvalidPhrase(f"the phrase {shown} keeps two texts under one name")
    literal = _MARK.sub(lambda mark: mark["literal"] or "", text)
    if len("".join(literal.split())) < _LITERALS_MIN:
        raise InvalidPhrase(f"the phrase {shown} has fewer than {_LITERALS_MIN} characters of its own")
