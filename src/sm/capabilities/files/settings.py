"""The settings of files: their section of config.yaml."""

from pydantic import Field

from sm.section import Section


class FileSettings(Section):
    """Files that you upload for messages and tasks. The files of a session are deleted with it (sm rm)."""

    unused_hours: int = Field(default=24, ge=1, le=8_760)
    """How many hours a file is kept that no message has named."""
    unused_max_mb: int = Field(default=200, ge=1, le=100_000_000)
    """How much room such files may take together, in MB. An upload that would exceed it is refused."""


class FilesSection(Section):
    """Adds the section of files to config.yaml."""

    files: FileSettings = FileSettings()
    """How long uploaded files are kept."""


CONFIG = FilesSection
"""Read by `sm.config`."""
