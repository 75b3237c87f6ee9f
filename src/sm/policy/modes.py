"""Parses and chooses the mode of a session, which decides who may finish the session. Pure."""

from sm.core.dataclass import dataclass
from sm.core.models import Workspace
from sm.core.states import Mode
from sm.core.text import folded


@dataclass(frozen=True, slots=True)
class ModeChoice:
    mode: Mode
    source: str
    """The setting that decided, as a person would type it."""


def parse_mode(value: str) -> Mode:
    """Raises ValueError for an unknown mode."""
    if value not in Mode.__members__.values():
        raise ValueError(f"unknown lifecycle mode {folded(value, 40)!r}: use auto, manual or supervised")
    return Mode(value)


def choose_mode(
    requested: Mode | None,
    agent_type: str,
    of_type: Mode | None,
    workspace: Workspace | None,
    configured: Mode,
) -> ModeChoice:
    """The mode of a new session: of the spawn, else of its agent type, its workspace, the configuration."""
    if requested is not None:
        return ModeChoice(requested, "--lifecycle")
    if of_type is not None:
        return ModeChoice(of_type, f"agent type {agent_type}")
    if workspace is not None and workspace.lifecycle is not None:
        return ModeChoice(workspace.lifecycle, f"workspace {workspace.slug}")
    return ModeChoice(configured, "child_agents.mode")
