"""The timer of the digest."""

from enum import StrEnum


class DigestTimer(StrEnum):
    """The kinds of timers. They are stored in the database, so they never change."""

    DAY = "digest"
    """The digest of the day is due. The subject is `digest`."""
