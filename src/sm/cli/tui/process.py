"""The pace of `sm top`, and its directory."""

import os

from sm.core.dataclass import dataclass

STARTED_S = 2.0
"""After this time, the first rows are there."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the view waits for the person, in seconds."""

    rest_s: float = 2.0
    """Nothing has been pressed or pointed at for this time: the order may be taken anew."""
    notice_s: float = 8.0
    undo_s: float = 5.0


def working_directory() -> str:
    """The directory of this process; empty if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""
