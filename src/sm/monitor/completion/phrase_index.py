"""The compiled phrases of a language, arranged so that few of them are tried in a sentence. Pure.

A phrase is tried at the words that it can begin with. Where these are not known, it is tried in the sentences that
contain a text which it needs.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from sm.monitor.completion.words import KINDS, Words

_BLANK = re.compile(r"\[(?:\\.|[^\]])*\]| [*?]?")
_OPEN = frozenset(("", *"\\[(.^$|)?*+{_"))
_OPTIONAL = ("?", "*", "{")
_QUANTIFIER = re.compile(r"(?:[?*+]|\{[^}]*\})[?+]?")
_LETTERS = 2
"""Letters by which open beginnings are looked up."""

_REMEMBERED = 4_096
"""Words of a language whose groups are remembered: texts consist of the same words."""


Match = Callable[[str, int], "re.Match[str] | None"]
"""Matches phrases at a position of a text."""
Group = tuple[str, Match]
"""A kind, and phrases of it that are tried together."""
Tried = tuple[str, Match, tuple[str, ...]]
"""A group, and texts with single blanks: what the group matches begins with one of them."""


class Beginning(NamedTuple):
    """How the texts that a phrase matches begin."""

    letters: str
    """The first word, or letters that it begins with."""
    whole: bool
    """`letters` are the whole word."""
    text: str
    """All that is known, with single blanks."""


_UNKNOWN = Beginning("", whole=False, text="")


class ByFirstWord:
    """Groups of phrases by the first word of the texts that they match."""

    def __init__(self, groups: Sequence[tuple[Group, Iterable[Beginning] | None]]) -> None:
        """`groups` in the order in which they are tried. None: the words that they begin with are not known."""
        whole: dict[str, dict[int, set[str]]] = {}
        openings: dict[str, set[int]] = {}
        for number, (_, beginnings) in enumerate(groups):
            for letters, is_whole, text in [_UNKNOWN] if beginnings is None else beginnings:
                if is_whole:
                    whole.setdefault(letters, {}).setdefault(number, set()).add(text)
                else:
                    openings.setdefault(letters, set()).add(number)
        self._words: dict[str, Sequence[Tried]] = {}
        for word, texts in whole.items():
            for end in range(len(word) + 1):
                texts.update((number, {""}) for number in openings.get(word[:end], ()))
            self._words[word] = [(*groups[number][0], tuple(texts[number])) for number in sorted(texts)]
        self.always: Sequence[Tried] = [(*groups[number][0], ("",)) for number in openings.get("", ())]
        """The groups that any text can begin with."""
        self._openings: dict[str, Sequence[tuple[tuple[str, ...], Tried]]] = {}
        for key in {letters[:end] for letters in openings for end in range(1, _LETTERS + 1)}:
            of_group: dict[int, list[str]] = {}
            for letters, numbers in openings.items():
                if letters.startswith(key) or key.startswith(letters):
                    for number in numbers:
                        of_group.setdefault(number, []).append(letters)
            self._openings[key] = [
                (tuple(of_group[number]), (*groups[number][0], ("",))) for number in sorted(of_group)
            ]
        self.of = lru_cache(maxsize=_REMEMBERED)(self._of)
        """The groups that a text with this first word can match."""

    def _of(self, word: str) -> Sequence[Tried]:
        known = self._words.get(word)
        if known is not None:
            return known
        openings = self._openings.get(word[:_LETTERS]) or self._openings.get(word[:1])
        if openings is None:
            return self.always
        return [tried for letters, tried in openings if word.startswith(letters)]


@dataclass(frozen=True, slots=True)
class Index:
    """The phrases of a language."""

    begins: ByFirstWord
    """Phrases that begin a sentence."""
    words: ByFirstWord | None
    """Phrases that begin with known words. None: the language has none."""
    anywhere: Sequence[tuple[str, Sequence[str], re.Pattern[str]]]
    """All other phrases of a kind, with texts of which a sentence must contain one."""
    inquiry: re.Pattern[str]
    """Phrases that begin a task whose result is a text."""


@cache
def index(words: Words) -> Index:
    """Compile the phrases of a language."""
    begins: dict[str, list[str]] = {}
    starts: dict[tuple[str, str], dict[str, set[Beginning]]] = {}
    anywhere: dict[str, list[str]] = {}
    for kind in KINDS:
        for phrase in words.phrases(kind):
            beginnings = _beginnings(phrase) if words.whole_words else None
            if phrase.startswith("^") or kind == "inquiry":
                begins.setdefault(kind, []).append(phrase.removeprefix("^"))
            elif beginnings is None:
                anywhere.setdefault(kind, []).append(phrase)
            else:
                for prefix, firsts in beginnings.items():
                    starts.setdefault((prefix, kind), {})[phrase] = firsts
    before, behind = ("(?<!\\w)", "(?!\\w)") if words.whole_words else ("", "")
    inquiry = _compiled(begins.pop("inquiry", ["(?!)"]), "", behind)
    return Index(
        ByFirstWord(
            [
                ((kind, _compiled(phrases, "", behind).match), _all_beginnings(phrases, words.whole_words))
                for kind, phrases in begins.items()
            ]
        ),
        ByFirstWord(
            [
                ((kind, _compiled(phrases, "", behind).match), set().union(*phrases.values()))
                for (_, kind), phrases in sorted(starts.items(), key=lambda start: -len(start[0][0]))
            ]
        )
        if starts
        else None,
        [
            (kind, _all_needed(phrases), _compiled(phrases, before, behind))
            for kind, phrases in anywhere.items()
        ],
        inquiry,
    )


def _compiled(phrases: Iterable[str], before: str, behind: str) -> re.Pattern[str]:
    choices = "|".join(_BLANK.sub(_any_blanks, phrase) for phrase in phrases)
    return re.compile(f"{before}(?:{choices}){behind}")


def _any_blanks(part: re.Match[str]) -> str:
    """A blank of a phrase stands for one or more in the sentence; code and quotes leave many."""
    return {" ": " +", " ?": " *"}.get(part.group(), part.group())


def _all_beginnings(phrases: Iterable[str], whole_words: bool) -> set[Beginning] | None:
    found: set[Beginning] = set()
    for phrase in phrases:
        beginnings = _beginnings(phrase) if whole_words else None
        if beginnings is None:
            return None
        found.update(*beginnings.values())
    return found


def _beginnings(phrase: str) -> dict[str, set[Beginning]] | None:
    """How every text that the phrase matches begins, by its first one or two characters. None: it is not known."""
    if phrase.startswith("(?:"):
        choices, rest = _choices(phrase)
        if rest[:1] in ("*", "+", "{"):
            return None
        if rest[:1] == "?":
            rest = rest[1:]
            choices.append("")
        found: dict[str, set[Beginning]] = {}
        for choice in choices:
            beginnings = _beginnings(choice + rest)
            if beginnings is None:
                return None
            for prefix, firsts in beginnings.items():
                found.setdefault(prefix, set()).update(firsts)
        return found
    if phrase.startswith(("\\d+", "\\d ", "[1-9]")):
        return {digit: {Beginning(digit, whole=False, text=digit)} for digit in "0123456789"}
    if not phrase[:1].isalnum() or phrase[1:2] in ("?", "*", "+", "{"):
        return None
    second = phrase[1:2]
    literal = (second.isalnum() or second in (" ", "'", "-")) and phrase[2:3] not in _OPTIONAL
    return {phrase[:2] if second and literal else phrase[0]: _first_words(phrase)}


def _first_words(phrase: str) -> set[Beginning]:
    """The first words of the texts that a phrase matches, as far as it spells them out."""
    end = 1
    while phrase[end : end + 1].isalnum() and phrase[end + 1 : end + 2] not in (*_OPTIONAL, "+"):
        end += 1
    letters, rest = phrase[:end], phrase[end:]
    if rest.startswith("(?:"):
        choices, behind = _choices(rest)
        if behind[:1] == "?":
            behind = behind[1:]
            choices.append("")
        if behind[:1] not in ("*", "+", "{"):
            return set().union(*(_first_words(letters + choice + behind) for choice in choices))
    ends = not rest or not (rest[0].isalnum() or rest[0] in _OPEN or rest[1:2] in _OPTIONAL)
    if not ends:
        return {Beginning(letters, whole=False, text=letters)}
    return {Beginning(letters, whole=True, text=letters + more) for more in _spelled_out(rest)}


def _spelled_out(phrase: str, groups: int = 1) -> set[str]:
    """The texts that a phrase begins with, as far as they are letters. Looks into so many groups."""
    end = 0
    while phrase[end : end + 1] not in _OPEN and phrase[end + 1 : end + 2] not in (*_OPTIONAL, "+"):
        end += 1
    text, rest = phrase[:end], phrase[end:]
    if groups and rest.startswith("(?:"):
        choices, behind = _choices(rest)
        if behind[:1] == "?":
            behind = behind[1:]
            choices.append("")
        if behind[:1] not in ("*", "+", "{"):
            return {text + more for choice in choices for more in _spelled_out(choice + behind, groups - 1)}
    return {text}


def _choices(phrase: str) -> tuple[list[str], str]:
    """The alternatives of the group that `phrase` begins with, and the rest of the phrase."""
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
                    return [*choices, phrase[begin:at]], phrase[at + 1 :]
            case _:
                pass
        at += 1


def _all_needed(phrases: Iterable[str]) -> Sequence[str]:
    """Texts of which every text that one of the phrases matches contains one."""
    found: set[str] = set()
    for phrase in phrases:
        needed = _needed(phrase)
        if not needed:
            return [""]  # it may be any text
        found |= needed
    return sorted(found, key=len)


def _needed(phrase: str) -> set[str]:
    """Few texts of which every text that the phrase matches contains one. Empty: they are not known."""
    candidates: list[set[str]] = []
    literal = ""
    while phrase:
        text, texts, phrase = _atom(phrase)
        quantifier = _QUANTIFIER.match(phrase)
        if quantifier is None:
            literal += text
        else:
            phrase = phrase[quantifier.end() :]
            if not quantifier.group().startswith("+"):
                texts = set()
        if literal and (quantifier is not None or not text or not phrase):
            candidates.append({literal})
            literal = ""
        if texts:
            candidates.append(texts)
    return min(candidates, key=lambda texts: len(texts) / min(map(len, texts)), default=set())


def _atom(phrase: str) -> tuple[str, set[str], str]:
    """The first part of a phrase: its text if it matches only that, or the needed texts of a group, and the rest."""
    match phrase[0]:
        case "(":
            choices, rest = _choices(phrase)
            needed = [_needed(choice) for choice in choices] if phrase.startswith("(?:") else []
            return "", set().union(*needed) if all(needed) else set(), rest
        case "[":
            return "", set(), phrase[phrase.index("]", 2) + 1 :]
        case "\\":
            return "" if phrase[1].isalnum() else phrase[1], set(), phrase[2:]
        case "." | "^" | "$" | " ":
            return "", set(), phrase[1:]
        case letter:
            return letter, set(), phrase[1:]
