"""Decides for which reasons a session may run on this host in place of a sandbox. Pure."""

from collections.abc import Container, Mapping
from typing import Final

from sm.core.sightings import Sighting
from sm.errors import EngineMissing, ImageMissing, SandboxUnavailable

REASONS: Final[Mapping[type[SandboxUnavailable], Sighting]] = {
    EngineMissing: Sighting.ENGINE,
    ImageMissing: Sighting.IMAGE,
}
"""The only errors that lead to the fallback, and what must never have been met in this instance.

Whatever was there once and is gone may have been ended by an agent, by a crash or by mistake.
"""


def may_fall_back(error: SandboxUnavailable, met: Container[Sighting]) -> bool:
    """True if the want of a sandbox is one that no agent can cause.

    Compares the exact class: a new kind of error never falls back, also not one derived from these.
    """
    needed = REASONS.get(type(error))
    return needed is not None and needed not in met
