"""Reads a text argument from stdin."""

import sys

from sm.errors import InvalidText


def message_text(text: str) -> str:
    """Return `text`; for `-` the text on stdin without its last newline. Raises InvalidText."""
    if text != "-":
        return text
    from sm.core.text import MESSAGE_MAX

    return read_text("message", MESSAGE_MAX).removesuffix("\n")


def read_text(what: str, limit: int) -> str:
    """Read all of stdin, with CRLF as LF.

    Raises InvalidText for bytes that are not UTF-8, and for more than `limit` characters before the final newlines.
    """
    # A character takes at most four bytes and the last newline two: more bytes are refused unread.
    max_bytes = 4 * limit + 2
    data = sys.stdin.buffer.read(max_bytes + 1)
    try:
        text = data.decode("utf-8").replace("\r\n", "\n") if len(data) <= max_bytes else None
    except UnicodeDecodeError as error:
        raise InvalidText(f"the {what} is not UTF-8: invalid byte at position {error.start + 1}") from None
    if text is None or len(text.rstrip("\n")) > limit:
        raise InvalidText(
            f"the {what} has more than {limit:,} characters",
            f"write the text to a file and give its path in the {what}",
        )
    return text
