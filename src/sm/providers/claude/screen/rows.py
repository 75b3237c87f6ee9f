# ruff: noqa: RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""Functions on the rows of a screen."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import takewhile

_RULE = re.compile(r"─{10,}|─+ [^─]+ ─+")
"""A rule, or a rule with the session's name: `──── my-agent ──`."""


def trim(lines: Sequence[str]) -> list[str]:
    """Remove padding. claude writes a no-break space after its `❯`."""
    rows = [line.replace("\xa0", " ").rstrip() for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def is_rule(row: str) -> bool:
    """Return whether `row` is a rule drawn by claude. A quoted rule does not begin in the first column."""
    return bool(_RULE.fullmatch(row)) and row.count("─") >= 10


def columns(row: str) -> int:
    """The width of `row` in a terminal. Names of sessions may be in any script."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in row)
    unseen = sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in row)
    return len(row) + wide - unseen


def indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def paragraph(rows: Sequence[str]) -> list[str]:
    taken: list[str] = []
    for row in rows:
        if row:
            taken.append(row)
        elif taken:
            break
    return taken


def last_paragraph(rows: Sequence[str]) -> list[str]:
    """The rows below the last blank row; empty if the last row is blank."""
    return list(reversed(list(takewhile(bool, reversed(rows)))))


def one_line(rows: Sequence[str]) -> str:
    return " ".join(row.strip() for row in rows)
