"""Runs agents in containers of a Docker engine: one container for each workspace, one for sessions without a workspace.

Its modules import the SDK where they first use it: the import takes 0.3 s and 20 MB, and needs an engine to be useful.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sm.sandboxes.engine import ContainerEngine, EngineContext


def make_engine(context: "EngineContext") -> "ContainerEngine":
    """Make the engine. It is asked when a session needs it."""
    from sm.sandboxes.docker.parts import DockerEngine

    return DockerEngine(context)
