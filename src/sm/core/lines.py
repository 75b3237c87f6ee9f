"""Formats texts, times and events of the daemon's JSON as safe lines. Pure.

An agent's texts (messages, notes, titles, output) must pass through `line` or `agent_line`: they can then neither
control the reader's terminal nor pass for the daemon's text.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from sm.core.timestamps import span

RESULT_MAX = 50_000
"""Characters of a result or a milestone. Notices quote only the beginning, so the rest is typed into no terminal."""
JsonObject = Mapping[str, Any]
"""An object of the daemon's answer."""

# C0 except tab, DEL, C1, surrogates; bidirectional marks, overrides and isolates, which change the displayed order.
_CONTROLS = "[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
# JSON does not escape DEL and C1, of which a terminal reads U+009B as the start of an escape sequence. Nor does it
# escape direction marks, which change the displayed order, and line separators, where some readers start a new line.
_JSON_CONTROLS = {
    number: f"\\u{number:04x}"
    for numbers in (range(0x7F, 0xA0), (0x61C, 0x200E, 0x200F), range(0x2028, 0x202F), range(0x2066, 0x206A))
    for number in numbers
}


def line(text: object, limit: int = 500) -> str:
    """Fold `text` into one line without control characters, cut at `limit` characters."""
    text = str(text)
    if text.isprintable() and len(text) <= limit:
        return text
    from sm.core.text import folded

    return folded(text, limit)


def plain_line(text: str) -> str:
    """Remove control characters except tabs from one line of text."""
    return text if text.isprintable() else re.sub(_CONTROLS, "", text)


def escape_mark(text: str) -> str:
    """Put `> ` before a line that imitates the daemon's own lines."""
    if text.isascii() and "[sm]" not in text.lower():
        return text
    from sm.core.text import escape_marks

    return escape_marks(text)


def agent_line(text: str) -> str:
    """Make a line of an agent, or of its terminal, safe to print on a separate line."""
    return escape_mark(plain_line(text))


def json_text(text: str) -> str:
    """Escape the control characters that a JSON document of the daemon may contain."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON_CONTROLS)


def seconds_since(timestamp: str, now: datetime) -> float:
    return max(0.0, (now - datetime.fromisoformat(timestamp)).total_seconds())


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def fact_lines(facts: Iterable[tuple[str, object]], limit: int = 500) -> list[str]:
    """`Status:    running`, a line for each fact that has a value, which is cut at `limit` characters."""
    return [f"{name + ':':<11}{line(value, limit)}" for name, value in facts if value]


def age(timestamp: str | None, now: datetime) -> str:
    return f"{span(seconds_since(timestamp, now))} ago" if timestamp else "never"


def clock(timestamp: str, now: datetime, zone: tzinfo | None = None, *, seconds: bool = False) -> str:
    """Format a time in `zone`, or in local time: `15:10` today, `2026-01-26 15:10` on another day."""
    at = datetime.fromisoformat(timestamp).astimezone(zone)
    date = "" if at.date() == now.astimezone(zone).date() else "%Y-%m-%d "
    return at.strftime(f"{date}%H:%M:%S" if seconds else f"{date}%H:%M")


def event_line(event: JsonObject, now: datetime, zone: tzinfo | None = None) -> str:
    """Format an event as `[15:10] spawned: Child engineer-abc123 (1a2b3c4d) started`."""
    return f"[{clock(event['timestamp'], now, zone)}] {line(event['type'])}: {line(event['message'], 2000)}"


def checkpoint_line(checkpoint: JsonObject, now: datetime, zone: tzinfo | None = None) -> str:
    return f"[{clock(checkpoint['timestamp'], now, zone)}] {line(checkpoint['message'], 2000)}"
