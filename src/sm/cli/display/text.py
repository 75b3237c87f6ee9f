"""Turns texts, times and events of the daemon's JSON into safe lines for a person. Pure.

An agent's own words (messages, notes, titles, output) go through `line` or `their_line`, so that they can neither drive
the reader's terminal nor pass for the daemon's words.
"""

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

Shown = Mapping[str, Any]
"""An object of the daemon's answer (design section 13)."""

# C0 but for the tab, DEL, C1, surrogates; bidirectional overrides and isolates would show the text in another order.
_CONTROLS = "[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
# DEL and C1, which JSON leaves as they are; a terminal takes U+009B for the start of an escape sequence.
_JSON_CONTROLS = {number: f"\\u{number:04x}" for number in range(0x7F, 0xA0)}


def line(text: object, limit: int = 500) -> str:
    """`text` as one line without control characters, cut at `limit` characters."""
    text = str(text)
    if text.isprintable() and len(text) <= limit:
        return text
    from sm.core.text import folded

    return folded(text, limit)


def plain_line(text: str) -> str:
    """One line of a terminal's text without anything that could move a cursor; tabs stay."""
    return text if text.isprintable() else re.sub(_CONTROLS, "", text)


def unclaimed(text: str) -> str:
    """A line of somebody else, with `> ` in front when it claims to be one that only the daemon writes."""
    if text.isascii() and "[sm]" not in text.lower():
        return text
    from sm.core.text import marked

    return marked(text)


def their_line(text: str) -> str:
    """One line that an agent, or its terminal, has written, where it stands on a line of its own."""
    return unclaimed(plain_line(text))


def json_text(text: str) -> str:
    """A JSON document as it came from the daemon, safe to print: controls only as escapes."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON_CONTROLS)


def seconds_since(timestamp: str, now: datetime) -> float:
    return max(0.0, (now - datetime.fromisoformat(timestamp)).total_seconds())


def span(seconds: float) -> str:
    """`10s`, `5min`, `2h`, `3d`: whole units, rounded down."""
    for unit_s, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{int(seconds) // unit_s}{unit}"
    return f"{int(seconds)}s"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def age(timestamp: str | None, now: datetime) -> str:
    return f"{span(seconds_since(timestamp, now))} ago" if timestamp else "never"


def clock(timestamp: str, zone: tzinfo | None) -> str:
    """`15:10` in `zone`; None is this machine's."""
    return datetime.fromisoformat(timestamp).astimezone(zone).strftime("%H:%M")


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def event_line(event: Shown, zone: tzinfo | None) -> str:
    """`[15:10] spawned: Child engineer-abc123 (1a2b3c4d) started`."""
    return f"[{clock(event['timestamp'], zone)}] {line(event['type'])}: {line(event['message'], 2000)}"


def checkpoint_line(checkpoint: Shown, zone: tzinfo | None) -> str:
    return f"[{clock(checkpoint['timestamp'], zone)}] {line(checkpoint['message'], 2000)}"


def cut(text: str, width: int | None) -> str:
    """`text` in at most `width` columns; None: as long as it is."""
    if width is None or columns(text) <= width:
        return text
    kept = text[: max(0, width - 1)]
    while kept and columns(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"
