"""Texts of messages to Telegram: without markup, or marked as repeated. Pure."""

import html
import re
from collections.abc import Mapping
from typing import Any

TEXT_MAX = 4096
"""UTF-16 code units of a message after entities parsing."""
_AGAIN = "\n(again)"
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


def utf16_length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def cut_utf16(text: str, limit: int) -> str:
    """The longest beginning of the text that has at most `limit` UTF-16 code units."""
    if len(text) <= limit and utf16_length(text) <= limit:
        return text
    used = 0
    for position, character in enumerate(text):
        used += 2 if character > "\uffff" else 1
        if used > limit:
            return text[:position]
    return text


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the same message without markup."""
    plain = {name: value for name, value in parameters.items() if name != "parse_mode"}
    for name in ("text", "caption"):
        if name in plain:
            plain[name] = html.unescape(_TAG.sub("", plain[name]))
    return plain


def marked_again(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a message that may have been sent before. A full message stays as it is."""
    marked = dict(parameters)
    for name in ("text", "caption"):
        if name in marked and utf16_length(marked[name]) + len(_AGAIN) <= TEXT_MAX:
            marked[name] += _AGAIN
            break
    return marked
