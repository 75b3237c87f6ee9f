"""The parts of a sandbox that an instance has met. Pure data."""

from enum import StrEnum


class Sighting(StrEnum):
    """The values are stored in the database, so they never change. What was met once is remembered for ever."""

    ENGINE = "engine"
    """A container engine answered."""
    IMAGE = "image"
    """An engine had an image of sandboxes."""
