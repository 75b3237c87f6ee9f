"""Validates friendly names and titles of sessions. Pure."""

import re
import unicodedata

from sm.core.text import folded, validate_text
from sm.errors import UsageError

_FRIENDLY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TITLE_MAX = 200
_TITLE_SIGNS = " _-.#:()"


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


def normalize_title(title: str) -> str:
    """The title, normalized. Raises UsageError unless it is one line of letters, digits and a few signs."""
    kept = validate_text(title, "title", _TITLE_MAX, one_line=True).strip()
    if not kept or not all(
        c.isalnum() or unicodedata.category(c)[0] == "M" or c in _TITLE_SIGNS for c in kept
    ):
        raise UsageError(
            f"invalid title {folded(title, 80)!r}",
            f"use letters and digits of any script, spaces, and {' '.join(_TITLE_SIGNS.strip())}",
        )
    return kept
