"""Faults of the connection to Telegram that a test switches on for some calls."""

from collections import Counter
from enum import StrEnum


class Fault(StrEnum):
    CUT_BEFORE = "cut_before"
    """The connection ends before the call is carried out."""
    CUT_AFTER = "cut_after"
    """The call is carried out, and the connection ends before the answer."""
    BAD_GATEWAY = "bad_gateway"
    """Answer 502 with HTML; the call is not carried out."""
    SILENCE = "silence"
    """No answer until the client gives up; the call is not carried out."""
    FLOOD = "flood"
    """Answer 429 with `retry_after`; the call is not carried out."""


ALWAYS = 1_000_000_000


class Faults:
    """The faults that are due, by method. The method `*` is any method."""

    def __init__(self) -> None:
        self._due: Counter[tuple[str, Fault]] = Counter()

    def add(self, method: str, fault: Fault, times: int) -> None:
        self._due[method.lower(), fault] += times

    def clear(self) -> None:
        self._due.clear()

    def take(self, method: str) -> Fault | None:
        """The fault of this call, which is then due one time less."""
        for (name, fault), times in self._due.items():
            if name in (method.lower(), "*") and times > 0:
                self._due[name, fault] -= 1
                return fault
        return None
