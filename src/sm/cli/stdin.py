"""A text that a command reads from stdin."""

import sys

from sm.errors import InvalidText


def text_of_stdin(what: str, limit: int) -> str:
    """All of stdin, of which at most `limit` characters are taken, last newlines not counted.

    Raises InvalidText when it is longer or not UTF-8.
    """
    # At most four bytes a character, and a newline of two: what is longer than this is refused unread.
    most = 4 * limit + 2
    data = sys.stdin.buffer.read(most + 1)
    try:
        text = data.decode("utf-8").replace("\r\n", "\n") if len(data) <= most else None
    except UnicodeDecodeError as error:
        raise InvalidText(f"the {what} is not UTF-8: byte {error.start + 1}") from None
    if text is None or len(text.rstrip("\n")) > limit:
        raise InvalidText(
            f"the {what} has more than {limit:,} characters",
            f"put it into a file and name the file in the {what}",
        )
    return text
