"""Texts of messages to Telegram: visible, escaped, cut, without markup, or marked as repeated. Pure."""

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

TEXT_MAX = 4096
"""UTF-16 code units of a message after entities parsing."""
_AGAIN = "\n(again)"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""C0 and C1 controls but newline and tab; invisible and bidirectional characters; halves of surrogate pairs."""
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


def visible(text: str) -> str:
    """Replace control and bidirectional characters, but not newlines and tabs, by code points such as `<U+001B>`."""
    return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def escaped(text: str) -> str:
    """Foreign text in the markup of Telegram (HTML)."""
    return html.escape(visible(text), quote=False)


def preformatted(text: str) -> str:
    return f"<pre>{escaped(text)}</pre>"


def cut(text: str, limit: int) -> str:
    """The beginning of the text, in at most `limit` UTF-16 code units after `visible`."""
    text = visible(text)
    if utf16_length(text) <= limit:
        return text
    units, kept = 1, []
    for character in text:
        units += 1 + (character > "\uffff")
        if units > limit:
            break
        kept.append(character)
    return "".join(kept) + "…"


def pages(lines: Iterable[str], limit: int) -> list[str]:
    """The lines in texts of at most `limit` UTF-16 code units. A longer line is cut."""
    found: list[str] = []
    page: list[str] = []
    used = 0
    for line in lines:
        line = cut(line, limit)
        size = utf16_length(line) + 1
        if page and used + size > limit + 1:
            found.append("\n".join(page))
            page, used = [], 0
        page.append(line)
        used += size
    return [*found, "\n".join(page)] if page else found
