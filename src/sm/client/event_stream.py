"""Parses event streams of the daemon. Imports nothing, because `sm mcp` loads this module."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class EventTooLong(ValueError):
    """A line of the stream exceeds the limit."""


def read_events(pieces: "Iterable[bytes]", max_bytes: int) -> "Iterator[tuple[int, str]]":
    """Parse server-sent events (HTML Living Standard, 9.2.6) into (id, data). Raises EventTooLong.

    `max_bytes`: the limit of one line. The id is 0 until the stream names one.
    """
    number = 0
    data: list[bytes] = []
    rest: list[bytes] = []  # joined once: an event may come in thousands of pieces
    size = 0
    for piece in pieces:
        first, *more = piece.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > max_bytes:
            raise EventTooLong
        if not more:
            continue
        lines = [b"".join(rest), *more[:-1]]
        rest, size = [more[-1]], len(more[-1])
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"id" and value.isdigit():
                number = int(value)
            elif not line.rstrip(b"\r") and data:
                yield number, b"\n".join(data).decode("utf-8", "replace")
                data = []
