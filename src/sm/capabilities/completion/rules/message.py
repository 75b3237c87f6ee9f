"""Splits a final message into the sentences that its author wrote, without code, quotes and tables."""

import re
from collections.abc import Callable, Iterator
from enum import Enum

from sm.capabilities.completion.model import QUOTE_MAX
from sm.core.dataclass import dataclass

HEAD_SENTENCES = 30
TAIL_SENTENCES = 60
"""Sentences at the begin and at the end of a message that the rules see. More are only in very long messages."""
SENTENCE_MAX = 600
HEAD, TAIL = 6_000, 10_000
"""Characters at the begin and at the end of a long message that are split into sentences."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_FENCES = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.MULTILINE)
_CODE = re.compile(r"(`{1,2})[^`\n]{1,300}\1")
_QUOTED = re.compile(
    '"[^"\n]{1,300}"|“[^“”\n]{1,300}”|„[^„“”\n]{1,300}[“”]|«[^«»\n]{1,300}»|「[^「」\n]{1,300}」'
)
_WORDS = re.compile(r"[^\W_]|`")
_MARKUP = re.compile(r"[*#~]+")
_ITEM = re.compile(r"[ \t]*(?:[-*+•–][ \t]+|\(?(?:\d{1,3}|[a-zA-Z])[.)][ \t]+)")
_HEADING = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\*\*[^*\n]{1,80}\*\*:?[ \t]*$|__[^_\n]{1,80}__:?[ \t]*$)")
# The end of a sentence. The marks of Chinese and Japanese need no space behind them.
# All alternatives begin with one class of characters, for which `re` searches fast.
_END = re.compile(
    r"[.!?…。！？؟।॥؛](?:(?<=[.!?…])(?<![.!?…].)[.!?…]*+[\"'”’)\]*_]*(?=\s|$)|"
    r"(?<=[。！？؟।॥])[。！？؟।॥]*[」』”)]*|(?<=؛)(?=\s))"
)
_ASIDE = re.compile(
    r"\b(?:optional|follow-?ups?|future|ideas?|suggest\w*|recommend\w*|known limitations?|limitations|"
    r"out of scope|"
    r"notes?|caveats?|how it works|before|background|cause|what was wrong|nice to have|worth considering)\b",
    re.IGNORECASE,
)


_QUESTION_MARKS = ("?", "？", "؟", "⁇")
_LEADING = " \n#*_>¡¿✅✔✓☑🎉👍🚀\ufe0f\u200f\u200e-–—•"


class Part(Enum):
    """The kind of line that a sentence stands in."""

    PROSE = "prose"
    ITEM = "item"
    HEADING = "heading"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: its place in the message, and its words in lower case, with blanks for code and quotes."""

    start: int
    words: str
    part: Part
    aside: bool
    """The heading above says that the section is no report on the task, such as `Known limitations`."""

    @property
    def is_question(self) -> bool:
        return self.words.rstrip("`*_)\"'”» ").endswith(_QUESTION_MARKS)


@dataclass(frozen=True, slots=True)
class FinalMessage:
    """A final message, and those of its sentences that the rules see."""

    text: str
    sentences: tuple[Sentence, ...]

    def quote(self, sentence: Sentence, at: int = 0) -> str:
        """At most 120 characters of the message's line at the position `at` of the sentence."""
        begin = sentence.start + (max(at - QUOTE_MAX // 3, 0) if len(sentence.words) > QUOTE_MAX else 0)
        quoted = self.text[begin : min(sentence.start + len(sentence.words), begin + QUOTE_MAX)].strip()
        return quoted.splitlines()[0].strip() if quoted else ""

    @property
    def first_words(self) -> str:
        """At most 120 characters of the first line that has words."""
        begin = self.text[: 4 * QUOTE_MAX].strip()
        return begin.splitlines()[0][:QUOTE_MAX].strip() if begin else ""


def read_message(text: str) -> FinalMessage:
    """Split `text` into sentences. Takes time linear in the length of `text`."""
    if len(text) <= HEAD + TAIL:
        found = _sentences(text)
    else:
        tail = text.find("\n", len(text) - TAIL) + 1 or len(text) - TAIL
        found = _sentences(text[:HEAD])
        found += _sentences(text[tail:], tail, _open_fence(text, tail))
    if len(found) > HEAD_SENTENCES + TAIL_SENTENCES:
        found = found[:HEAD_SENTENCES] + found[-TAIL_SENTENCES:]
    return FinalMessage(text, tuple(found))


def _open_fence(text: str, end: int) -> str:
    """The fence in which the position `end` stands, or nothing."""
    fence = ""
    for opened in _FENCES.finditer(text, 0, end):
        if not fence or opened.group(1).startswith(fence):
            fence = "" if fence else opened.group(1)
    return fence


def lowered(text: str) -> str:
    """`text` in lower case, with the same length: some capitals have two characters in lower case."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _blanked(text: str) -> str:
    """`text` in lower case, where backticks replace code and blanks replace quotes. The positions stay the same."""
    text = lowered(text).replace("’", "'").replace("\t", " ")
    if "`" in text:
        text = _CODE.sub(_filled("`"), text)
    return _QUOTED.sub(_filled(" "), text)


def _filled(character: str) -> Callable[[re.Match[str]], str]:
    return lambda found: character * len(found.group())


def _sentences(text: str, offset: int = 0, fence: str = "") -> list[Sentence]:
    """The sentences of all lines that are neither in a fence nor a quote nor a row of a table."""
    blanked = _blanked(text)
    found: list[Sentence] = []
    aside = lasting = False
    pending: tuple[int, int, Part] | None = None  # a paragraph that the next line may continue
    for start, end in _lines(text):
        opened = _FENCE.match(text, start, end)
        if opened is not None and (not fence or opened.group(1).startswith(fence)):
            fence = "" if fence else opened.group(1)
            blank = True
        else:
            stripped = text[start:end].lstrip()
            blank = bool(fence) or not stripped or stripped[0] in ">|"
        if blank:
            if pending is not None:
                _split(found, blanked, offset, *pending, aside)
                pending = None
            continue
        part = _part(text, start, end)
        if pending is not None:
            if part is Part.PROSE and _continues(text, pending, start, end):
                pending = (pending[0], end, pending[2])
                continue
            _split(found, blanked, offset, *pending, aside)
            pending = None
        if part is Part.HEADING or (part is Part.PROSE and text[start:end].rstrip().endswith(":")):
            aside = _ASIDE.search(text, start, min(end, start + 100)) is not None
            lasting = aside and part is Part.HEADING  # until the next heading
        elif part is Part.PROSE and not lasting and text[max(start - 2, 0) : start].count("\n") == 2:
            aside = False
        pending = (start, end, part)
    if pending is not None:
        _split(found, blanked, offset, *pending, aside)
    return found


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """The begin and the end of each line, without its line end."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line.rstrip("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
        at += len(line)


def _part(text: str, start: int, end: int) -> Part:
    if _HEADING.match(text, start, end):
        return Part.HEADING
    return Part.ITEM if _ITEM.match(text, start, end) else Part.PROSE


def _continues(text: str, pending: tuple[int, int, Part], start: int, end: int) -> bool:
    """Detect a line that continues the sentence of the line before: the author's editor wrapped it."""
    begin, last, part = pending
    if part is Part.HEADING or last - begin > SENTENCE_MAX or text[last - 1] in ".!?:。！？؟।":
        return False
    first = text[start:end].lstrip()[:1]
    return first.islower() or text[last - 1] in ",;"


def _split(
    found: list[Sentence], blanked: str, offset: int, start: int, end: int, part: Part, aside: bool
) -> None:
    """Add the sentences of a paragraph to `found`."""
    at = start
    for mark in _END.finditer(blanked, start, end):
        _add_sentence(found, blanked, offset, at, mark.end(), part, aside)
        at = mark.end()
    if at < end:
        _add_sentence(found, blanked, offset, at, end, part, aside)


def _add_sentence(
    found: list[Sentence], blanked: str, offset: int, start: int, end: int, part: Part, aside: bool
) -> None:
    """Add a sentence without list marks and emphasis, unless it has no words. Emphasis becomes blanks."""
    if part is not Part.PROSE:
        mark = _ITEM.match(blanked, start, end)
        if mark is not None:
            start = mark.end()
    while start < end and blanked[start] in _LEADING:
        start += 1
    words = blanked[start : min(end, start + SENTENCE_MAX)].replace("\n", " ")
    if "*" in words or "#" in words or "~" in words:
        words = _MARKUP.sub(_filled(" "), words)
    if words[:1].isalnum() or _WORDS.search(words):
        found.append(Sentence(offset + start, words.rstrip(), part, aside))
