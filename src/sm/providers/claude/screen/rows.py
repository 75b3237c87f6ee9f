# ruff: noqa: RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""The rows of a screen, and what can be measured of them."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import takewhile

_RULE = re.compile(r"─{10,}|─+ [^─]+ ─+")
"""A rule, or one that carries the session's name: `──── my-agent ──`."""


def trimmed(lines: Sequence[str]) -> list[str]:
    """Without what is only padding. claude writes a no-break space after its `❯`."""
    rows = [line.replace("\xa0", " ").rstrip() for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def is_rule(row: str) -> bool:
    """Whether it is a rule of claude's own: one that is quoted does not begin in the first column."""
    return bool(_RULE.fullmatch(row)) and row.count("─") >= 10


def columns(row: str) -> int:
    """How wide a terminal shows `row`: names of sessions may be in any script."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in row)
    unseen = sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in row)
    return len(row) + wide - unseen


def indent(row: str) -> int:
    """How many blanks it begins with."""
    return len(row) - len(row.lstrip())


def paragraph(rows: Sequence[str]) -> list[str]:
    """The first rows up to a blank one, without blanks before them."""
    taken: list[str] = []
    for row in rows:
        if row:
            taken.append(row)
        elif taken:
            break
    return taken


def last_paragraph(rows: Sequence[str]) -> list[str]:
    """The rows below the last blank one; none where that is the last."""
    return list(reversed(list(takewhile(bool, reversed(rows)))))


def one_line(rows: Sequence[str]) -> str:
    """Wrapped rows as one line."""
    return " ".join(row.strip() for row in rows)
