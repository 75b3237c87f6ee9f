"""The engine `toybox`: its containers are processes of this machine."""

TYPE_CHECKING = False  # as in sm.wire
if TYPE_CHECKING:
    from sm.sandboxes.engine import ContainerEngine, EngineContext


def make_engine(context: "EngineContext") -> "ContainerEngine":
    from tests.registered.toybox.engine import ToyboxEngine

    return ToyboxEngine(context)
