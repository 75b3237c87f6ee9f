"""Normalizes what an agent says about itself, which is never refused for its form. Pure."""

import re
import unicodedata

from sm.core.text import REFUSED, cut_marks

_LOOKED_AT = 4
"""Normalization shortens a text at most so many times: what is beyond is cut before it."""
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[@-~]")
"""A control sequence, as in the output of a program that prints in colours (ECMA-48, 5.4)."""
_LINE_ENDS = re.compile(r"\s*[\n\u2028\u2029]\s*")


def normalize_report(
    text: str, what: str, limit: int, *, one_line: bool = False
) -> tuple[str, tuple[str, ...]]:
    """The text in NFC with LF newlines, at most `limit` characters, and a warning for each other change.

    `what`: the word for it in warnings, such as `note`.
    """
    changes = []
    if one_line:
        text = text.strip()
    kept = text[: _LOOKED_AT * limit].replace("\r\n", "\n")
    if REFUSED.search(kept) is not None:
        kept = REFUSED.sub("", _ESCAPE.sub("", kept))
        changes.append("left out control characters")
    if one_line:
        line = _LINE_ENDS.sub(" ", kept.strip())
        if line != kept.strip():
            changes.append("put on one line")
        kept = line
    if not kept.isascii():
        kept = unicodedata.normalize("NFC", cut_marks(kept))
    if len(kept) > limit or len(text) > _LOOKED_AT * limit:
        kept = kept[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
        changes.append(f"cut to {limit:,} characters")
    return kept, tuple(f"{what}: {change}" for change in changes)
