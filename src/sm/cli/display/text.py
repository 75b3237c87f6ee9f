"""Turns texts, times and events of the daemon's JSON into safe lines for a person. Pure.

An agent's own words (messages, notes, titles, output) go through `line` or `their_line`, so that they can neither drive
the reader's terminal nor pass for the daemon's words.
"""

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

Shown = Mapping[str, Any]
"""An object of the daemon's answer (design section 13)."""

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
    if text.isprintable():
        return text
    return "\t".join(_without_controls(part) for part in text.split("\t"))


def _without_controls(text: str) -> str:
    return "".join(
        c
        for c in text
        if c >= " "
        and not "\x7f" <= c <= "\x9f"
        and not "\ud800" <= c <= "\udfff"
        and not (
            "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069"
        )  # they would show it in another order
    )


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
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}min"
    if seconds < 86400:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"


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


def padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


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
