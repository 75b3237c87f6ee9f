"""Files of the operator in answers."""

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UploadedFileView:
    """An uploaded file."""

    file_id: str
    name: str
    size: int
    """In bytes."""
    media_type: str
    """By the suffix of the name, such as `image/png`."""


@dataclass(frozen=True, slots=True)
class FilesView:
    """The uploaded files that no message has named yet."""

    unused: int
    unused_bytes: int
    unused_hours: int
    """They are deleted after so many hours."""
    unused_max_mb: int
    """The room that they may take together."""
