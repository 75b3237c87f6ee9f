"""Values of a JSON that anybody may have written: what of them is of the shape that is wanted, within bounds. Pure.

What is of another shape is nothing, and raises nothing.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sm.core.text import folded

TEXT_MAX = 4_000
"""Characters kept of a text: its two ends, for a report says at its end what came of it."""
ARGUMENT_MAX = 200
ARGUMENTS_MAX = 30
NAME_MAX = 100
"""Bounds on what one value may leave in memory."""
_COUNT_MAX = 10**12
_WORD_MAX = 200
_PATH_MAX = 4096


def digest(tool: str, arguments: object) -> str:
    """The same for the same use of a tool, in whichever event: what claude asks about has no id of the use.

    Empty: it cannot be had.
    """
    try:
        return hashlib.sha256(json.dumps([tool, arguments], sort_keys=True).encode()).hexdigest()
    except RecursionError:  # thousands of brackets
        return ""


def shortened(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's arguments, cut to what may stay in memory: see `ToolUse.arguments`."""
    return {cut(key, NAME_MAX): _small(value) for key, value in list(arguments.items())[:ARGUMENTS_MAX]}


def _small(value: object) -> object:
    if isinstance(value, str):
        return cut(value, ARGUMENT_MAX)
    if not isinstance(value, (dict, list)):
        # A number can be a line long.
        return (
            value if not isinstance(value, int) or abs(value) <= _COUNT_MAX else f"{value.bit_length()} bits"
        )
    try:
        whole = json.dumps(value, ensure_ascii=False)
    except RecursionError:  # thousands of brackets
        whole = ""
    if 0 < len(whole) <= ARGUMENT_MAX and not _ODD.search(whole):
        return value
    return f"{{{len(value)} keys}}" if isinstance(value, dict) else f"[{len(value)} items]"


_HALF = re.compile("[\ud800-\udfff]")
_ODD = re.compile("[\ud800-\udfff]|[0-9]{19}")
"""What the daemon's JSON cannot hold: the half of an emoji, or an integer of more than 64 bits."""


def mended(text: str) -> str:
    """`text` with U+FFFD in the place of each half of a surrogate pair: no UTF-8 can hold one."""
    return _HALF.sub("\ufffd", text)


def cut(text: str, limit: int = TEXT_MAX) -> str:
    """`text` in at most `limit` characters: a long one loses its middle, a short limit its end."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[: half - 1]}…{text[-half:]}" if limit == TEXT_MAX else f"{text[: limit - 1]}…"
    return mended(text)


def string(value: object) -> str:
    """`value` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def name(value: object) -> str:
    """A short string, or nothing: ids, models, kinds."""
    return mended(value) if isinstance(value, str) and len(value) <= NAME_MAX else ""


def word(value: object) -> str:
    """A short text that claude itself chose; of anything else the beginning, harmless to show."""
    return folded(string(value), _WORD_MAX)


def absolute(value: object) -> str:
    """An absolute path, else an empty text."""
    path = string(value)
    return path if path.startswith("/") and "\0" not in path and len(path) <= _PATH_MAX else ""


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def blocks(content: object) -> list[Mapping[str, Any]]:
    """The objects of a message's content; none where it is a string."""
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def words(content: object) -> str:
    """The text of a message: a string, or the text blocks of a list."""
    if isinstance(content, str):
        return content
    return "\n".join(string(block.get("text")) for block in blocks(content) if block.get("type") == "text")


def count(value: object) -> int | None:
    """A number of tokens, or None for what is none. True is an int to Python, not to us."""
    return value if type(value) is int and 0 <= value <= _COUNT_MAX else None


# One form, because times are compared as texts.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)


def time(value: object) -> str | None:
    """A time as claude writes it, or None: also for 30 February, and for a year that no clock shows."""
    if not isinstance(value, str) or not _TIME.fullmatch(value, endpos=40):
        return None
    return value if seconds_of(value) is not None else None


def seconds_of(at: str) -> float | None:
    """Seconds since the epoch; None for what is no time."""
    try:
        found = datetime.fromisoformat(at)
        return found.timestamp() if found.tzinfo is not None and is_time(found.timestamp()) else None
    except (ValueError, OverflowError):
        return None


def is_time(at_s: float) -> bool:
    """Whether a clock may have shown so many seconds since the epoch: after 1970, and before the year 5138.

    Whatever is made of such a number is a time again.
    """
    return 0 < at_s < 1e11
