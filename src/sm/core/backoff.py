"""Delays between retries that double up to a bound. Pure: the caller sleeps."""


class Backoff:
    """The delays before a first, second, ... retry: `first_s`, twice that, ..., at most `longest_s`."""

    __slots__ = ("_first_s", "_longest_s", "_next_s")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next_s(self) -> float:
        """The delay before the next retry, in seconds."""
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, self._longest_s)
        return delay_s

    def reset(self) -> None:
        """Begin with `first_s` again, after a success."""
        self._next_s = self._first_s
