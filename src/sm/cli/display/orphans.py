"""Formats processes that ended sessions left behind. Pure."""

from collections.abc import Sequence

from sm.core.lines import JsonObject, line, plural
from sm.core.timestamps import span

_MIB = 1024 * 1024
_SHOWN_MAX = 20


def orphan_lines(orphans: Sequence[JsonObject]) -> list[str]:
    """`pid 4711 of engineer-login, 5min, 120 MiB: node server.js`, one line for each, at most 20."""
    lines = [
        f"pid {orphan['pid']} of {line(orphan['label'])}, {span(orphan['age_s'])}, "
        f"{max(1, round(orphan['memory_bytes'] / _MIB))} MiB: {line(orphan['command'], 80)}"
        for orphan in orphans[:_SHOWN_MAX]
    ]
    more = len(orphans) - _SHOWN_MAX
    return [*lines, f"and {more} more"] if more > 0 else lines


def orphan_words(sessions: int, orphans: Sequence[JsonObject]) -> str:
    """`0`, `2 processes (sm kill --orphans)`, or `1 session, 2 processes (...)`. `sessions`: those without a parent."""
    words = [plural(sessions, "session")] if sessions else []
    words += [f"{process_count(len(orphans))} (sm kill --orphans)"] if orphans else []
    return ", ".join(words) or "0"


def process_count(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"
