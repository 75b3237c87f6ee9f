"""The statuses of sessions.

CLI lists load this module at each start, so it imports only `enum` and defines no other enum.
"""

from enum import StrEnum
from typing import Self


class Tolerant(StrEnum):
    """An enum that accepts unknown stored values.

    A row of a newer version must not be lost or rewritten, so an unknown value becomes a member named UNKNOWN that
    keeps its text. Validate input with `in Type.__members__.values()`.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = "UNKNOWN"
        unknown._value_ = value
        return unknown


class Status(Tolerant):
    SPAWNED = "spawned"
    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
    WAITING_INPUT = "waiting_input"
    COMPLETED = "completed"
    ERROR = "error"
    ABANDONED = "abandoned"
    KILLED = "killed"


LIVE = (Status.SPAWNED, Status.STARTING, Status.RUNNING, Status.IDLE, Status.WAITING_INPUT)
ENDED = (Status.COMPLETED, Status.ERROR, Status.ABANDONED, Status.KILLED)

ENDED_OF_ANY_KIND = "ended"
"""Means any status of ENDED, for callers that wait for a status."""
