"""The settings of archives: their section of config.yaml."""

from pydantic import Field

from sm.section import Section


class ArchiveSettings(Section):
    """Archives of ended sessions in child_agents.cleanup.archive_path. The oldest goes first, never one of a live
    session."""

    keep_days: int | None = Field(default=90, ge=1, le=36_500)
    """How many days an archive is kept, or null for ever. The only copy of a conversation is deleted a day after a
    notice of it."""
    max_mb: int | None = Field(default=2000, ge=1, le=100_000_000)
    """How much room all archives may take, in MB, or null for any. An archive that is larger by itself is deleted
    first. Archives that wait for a day after a notice may exceed the limit."""


class ArchivesSection(Section):
    """Adds the section of archives to config.yaml."""

    archives: ArchiveSettings = ArchiveSettings()
    """How long the archives of ended sessions are kept."""


CONFIG = ArchivesSection
