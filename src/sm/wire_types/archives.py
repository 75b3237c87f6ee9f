"""Archives in answers."""

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ArchivesView:
    """The room that all archives take, at the last look."""

    bytes: int | None
    """Null if the daemon has not looked yet."""
    keep_days: int | None
    max_mb: int | None
    held: int
    """Archives that are due, but kept until the notice of their deletion is a day old."""
