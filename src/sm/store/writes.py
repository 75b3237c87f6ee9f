"""The base of classes that write rows in a transaction."""

from collections.abc import Callable, Iterable
from typing import Any


class Writes:
    """Statements of a transaction.

    `write_rows` takes a generator: the many rows of a long transcript are made in the database's thread, so that they
    do not block the event loop.
    """

    def __init__(
        self,
        write: Callable[[str, tuple[Any, ...]], None],
        write_rows: Callable[[str, Iterable[tuple[Any, ...]]], None],
    ) -> None:
        self._write = write
        self._write_rows = write_rows
