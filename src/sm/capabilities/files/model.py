"""A file of the operator."""

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """A file that waits for its message, or that a session has."""

    id: str
    name: str
    size: int
    """In bytes."""
    media_type: str
    created_at: str
    session_id: str | None = None
    """The session that has the file, or None for an unused file."""
    message_id: int | None = None
    """The message that names the file, or None for an unused file and for the task of the session."""

    @property
    def is_used(self) -> bool:
        return self.session_id is not None
