"""Runs the processes of agents: on this host, or in containers."""

from sm import registry
from sm.core.programs import engine_of
from sm.sandboxes.base import ProcessEnding, Sandbox
from sm.sandboxes.router import Sandboxes

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.sandboxes.engine import ContainerEngine, EngineContext

__all__ = ["ProcessEnding", "Sandbox", "Sandboxes", "make_engine"]


def make_engine(context: "EngineContext") -> "ContainerEngine":
    """Make the engine that `sandbox.engine` names. It is asked when a session needs it."""
    named = engine_of(context.config.sandbox.engine)
    engine: ContainerEngine = registry.load(registry.ENGINES[named.name]).make_engine(context)
    return engine
