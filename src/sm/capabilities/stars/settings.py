"""The setting of stars: their section of config.yaml."""

from pydantic import Field

from sm.section import Section


class StarSettings(Section):
    """Stars of sessions."""

    hours: float = Field(default=8.0, gt=0, le=8784)
    """How long a star lasts."""


class StarsSection(Section):
    """Adds the section of stars to config.yaml."""

    stars: StarSettings = StarSettings()
    """Stars of sessions, which sm star sets."""


CONFIG = StarsSection
