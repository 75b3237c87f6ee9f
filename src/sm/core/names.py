"""Validates friendly names and titles of sessions. Pure."""

import itertools
import re
import unicodedata
from collections.abc import Container

from sm.core.text import MARK, folded, imitates_mark, is_folded, validate_text
from sm.errors import UsageError

_FRIENDLY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NOT_FRIENDLY = re.compile(r"[^a-z0-9._]+")
_WISH_MAX = 56
"""Characters of a name that leave room for a number."""
_TITLE_MAX = 200


def friendly_name(pattern: str, kind: str, name: str) -> str:
    """The friendly name for `--name`, in lower case. Does not repeat the agent type. Raises UsageError."""
    name = name.lower()
    if not _FRIENDLY.fullmatch(name):
        raise UsageError(
            f"invalid name {folded(name, 80)!r}",
            "use letters a-z, digits, dot, dash and underscore, at most 64 characters",
        )
    if name.startswith(f"{kind}-"):
        return name
    return pattern.format(agent_type=kind, friendly_name=name).lower()


def nearest_name(pattern: str, kind: str, wish: str, taken: Container[str]) -> str | None:
    """The `name` nearest to `wish` whose `friendly_name` is valid and not `taken`, such as `login-2`.

    None if `wish` has no letter of a-z and no digit.
    """
    plain = unicodedata.normalize("NFKD", wish.lower()).encode("ascii", "ignore").decode()
    base = _NOT_FRIENDLY.sub("-", plain).strip("-._")[:_WISH_MAX].rstrip("-._")
    if not base:
        return None
    names = (base if number == 1 else f"{base}-{number}" for number in itertools.count(1))
    return next(name for name in names if friendly_name(pattern, kind, name) not in taken)


def normalize_title(title: str) -> str:
    """The title in NFC without spaces around it. Raises UsageError unless it is printable text of one line."""
    kept = validate_text(title.strip(" \t\r\n"), "title", _TITLE_MAX, one_line=True).strip()
    if not kept:
        raise UsageError("the title is empty", "a title is a few words: Fix the login")
    if is_folded(kept):
        raise UsageError(
            f"invalid title {folded(title, 80)!r}",
            "use one line without control characters and marks of the writing direction",
        )
    if imitates_mark(kept):
        raise UsageError(f"a title cannot begin with {MARK}, the mark of sm's own lines", f"leave out {MARK}")
    return kept
