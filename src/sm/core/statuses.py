"""The statuses of sessions.

Imports only `enum`, and makes no other enum: the lists of the CLI load this module at each start.
"""

from enum import StrEnum
from typing import Self


class Tolerant(StrEnum):
    """An enum that loads a stored word which this version does not know.

    A row of a newer version must not be lost or rewritten, so an unknown word becomes a member named UNKNOWN that
    keeps its text. Check input with `in Type.__members__.values()`.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        stranger = str.__new__(cls, value)
        stranger._name_ = "UNKNOWN"
        stranger._value_ = value
        return stranger


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
"""Every status of ENDED, for those who wait for a status."""
