"""Validates friendly names and titles of sessions. Pure."""

import re
import unicodedata

from sm.core.text import accepted, folded
from sm.errors import UsageError

_FRIENDLY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TITLE_MAX = 200
_TITLE_SIGNS = " _-.#:()"


def friendly_name(pattern: str, kind: str, name: str) -> str:
    """The friendly name for `--name`, in lower case. Does not repeat the agent type. Raises UsageError."""
    name = name.lower()
    if not _FRIENDLY.fullmatch(name):
        raise UsageError(
            f"name {folded(name, 80)!r} is not usable",
            "letters a-z, digits, dot, dash and underscore, at most 64",
        )
    if name.startswith(f"{kind}-"):
        return name
    return pattern.format(agent_type=kind, friendly_name=name).lower()


def title_kept(title: str) -> str:
    """The title, normalized. Raises UsageError unless it is one line of letters, digits and a few signs."""
    kept = accepted(title, "title", _TITLE_MAX, one_line=True).strip()
    if not kept or not all(
        c.isalnum() or unicodedata.category(c)[0] == "M" or c in _TITLE_SIGNS for c in kept
    ):
        raise UsageError(
            f"title {folded(title, 80)!r} is not usable",
            f"letters and digits of any script, blanks, and {' '.join(_TITLE_SIGNS.strip())}",
        )
    return kept
