"""Shortens a final message to the text that lists and notices show."""

import re

SUMMARY_MAX = 500
_LOOKED_AT = 8 * SUMMARY_MAX

_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
_HEADING = re.compile(r"\s*#{1,6}\s|\s*\*\*[^*]{1,80}\*\*:?\s*$")
_MARKS = re.compile(r"\s*(?:#{1,6}\s+|(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|>\s?)*")
_EMPHASIS = re.compile(r"(?<!\w)\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?!\w)")
_RULE = re.compile(r"\s*[-=*_|:\s]{3,}$")


def summary(text: str) -> str:
    """The first paragraph of `text` without Markdown marks, on one line of at most 500 characters.

    Headings and code count only in a message that has nothing else.
    """
    begin = text[:_LOOKED_AT]
    joined = _paragraph(begin, code=False, headings=False) or _paragraph(begin, code=True, headings=True)
    return joined if len(joined) <= SUMMARY_MAX else joined[: SUMMARY_MAX - 1] + "…"


def _paragraph(text: str, *, code: bool, headings: bool) -> str:
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            words = ""
        elif (fenced and not code) or _RULE.match(line) or (not headings and _HEADING.match(line)):
            words = ""
        else:
            words = " ".join(_EMPHASIS.sub("", _MARKS.sub("", line, count=1)).split())
        if words:
            lines.append(words)
        elif lines:
            break
    return " ".join(lines)
