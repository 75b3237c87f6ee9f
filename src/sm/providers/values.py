"""Reads typed values from untrusted JSON, with size limits. Pure.

Values of another type give an empty result. Nothing raises.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sm.core.text import folded

TEXT_MAX = 4_000
"""Characters kept of a text: both ends, because a report has its result at the end."""
ARGUMENT_MAX = 200
ARGUMENTS_MAX = 30
NAME_MAX = 100
"""Limits for values in memory."""
_COUNT_MAX = 10**12
_TOKENS_MAX = 10**8
"""More than any model reads or writes in one message: a larger number is an error or a lie of the agent."""
_WORD_MAX = 200
_PATH_MAX = 4096


def digest(tool: str, arguments: object) -> str:
    """A digest that matches events of the same tool use, because permission events have no tool use id.

    Empty if the arguments are nested too deeply.
    """
    try:
        return hashlib.sha256(json.dumps([tool, arguments], sort_keys=True).encode()).hexdigest()
    except RecursionError:  # thousands of brackets
        return ""


def shorten_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's arguments, truncated for `ToolUse.arguments`."""
    return {cut(key, NAME_MAX): _small(value) for key, value in list(arguments.items())[:ARGUMENTS_MAX]}


def _small(value: object) -> object:
    if isinstance(value, str):
        return cut(value, ARGUMENT_MAX)
    if not isinstance(value, (dict, list)):
        # An integer may have thousands of digits.
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
"""Values that orjson rejects: lone surrogates, and integers of more than 64 bits."""


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return _HALF.sub("\ufffd", text)


def cut(text: str, limit: int = TEXT_MAX) -> str:
    """Truncate to `limit` characters: the middle for TEXT_MAX, the end for other limits."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[: half - 1]}…{text[-half:]}" if limit == TEXT_MAX else f"{text[: limit - 1]}…"
    return replace_surrogates(text)


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def name(value: object) -> str:
    """A short string (id, model, kind), else an empty one."""
    return replace_surrogates(value) if isinstance(value, str) and len(value) <= NAME_MAX else ""


def word(value: object) -> str:
    """A short text of an agent, folded and truncated so that it is safe to show."""
    return folded(string(value), _WORD_MAX)


def absolute(value: object) -> str:
    """`value` if it is an absolute path, else an empty string."""
    path = string(value)
    return path if path.startswith("/") and "\0" not in path and len(path) <= _PATH_MAX else ""


def mapping(value: object) -> Mapping[str, Any]:
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
    """A number of tokens, else None. Rejects True, which is an int in Python."""
    return value if type(value) is int and 0 <= value <= _COUNT_MAX else None


def known_tokens(value: object) -> int | None:
    """The tokens of one message; None for a negative or absurd number, which must not count in a sum."""
    known = count(value)
    return known if known is not None and known <= _TOKENS_MAX else None


def tokens(value: object) -> int:
    """Read a count as `known_tokens` does, with 0 for one that cannot be read."""
    return known_tokens(value) or 0


# One format, because times are compared as strings.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)


def time(value: object) -> str | None:
    """A valid time in ISO 8601 with `Z`, else None."""
    if not isinstance(value, str) or not _TIME.fullmatch(value, endpos=40):
        return None
    return value if seconds_of(value) is not None else None


def seconds_of(at: str) -> float | None:
    """Seconds since the epoch; None for an invalid time."""
    try:
        parsed = datetime.fromisoformat(at)
        return parsed.timestamp() if parsed.tzinfo is not None and is_time(parsed.timestamp()) else None
    except (ValueError, OverflowError):
        return None


def is_time(at_s: float) -> bool:
    """Return whether `at_s` is between 1970 and the year 5138, which every conversion supports."""
    return 0 < at_s < 1e11
