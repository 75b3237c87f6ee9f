"""Shortens a final message to the text that lists and notices show."""

import re

SUMMARY_MAX = 500

_MARKS = re.compile(r"^\s*(?:#{1,6}\s+|[-*+]\s+|\d{1,3}[.)]\s+|>\s?)+")


def summary(text: str) -> str:
    """The first paragraph of `text` without Markdown marks, on one line of at most 500 characters."""
    lines: list[str] = []
    for line in text[: 8 * SUMMARY_MAX].splitlines():
        words = " ".join(_MARKS.sub("", line).split())
        if words:
            lines.append(words)
        elif lines:
            break
    joined = " ".join(lines)
    return joined if len(joined) <= SUMMARY_MAX else joined[: SUMMARY_MAX - 1] + "…"
