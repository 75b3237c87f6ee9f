"""Reads a text argument from stdin or from a file."""

import sys

from sm.errors import InvalidPath, InvalidText

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import BinaryIO


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
    return _decoded(sys.stdin.buffer, what, limit)


def read_file(path: str, what: str, limit: int) -> str:
    """Read a file, as `read_text`. Raises InvalidPath too."""
    try:
        with open(path, "rb") as file:
            return _decoded(file, what, limit)
    except OSError as error:
        raise InvalidPath(f"cannot read {path}: {error.strerror or error}") from None


def _decoded(stream: "BinaryIO", what: str, limit: int) -> str:
    # A character takes at most four bytes and the last newline two: more bytes are refused unread.
    max_bytes = 4 * limit + 2
    data = stream.read(max_bytes + 1)
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
