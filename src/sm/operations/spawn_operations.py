"""The operation that shows what a person may choose for a new session."""

from sm.core.dataclass import dataclass
from sm.core.programs import location_variables
from sm.operations import Operation
from sm.operations.access_rules import OPERATOR, Audience
from sm.operations.agent_operations import TypesScope
from sm.operations.arguments import SessionName
from sm.wire_types.spawn_choices import SpawnChoicesView


@dataclass(frozen=True, slots=True)
class SpawnScope(TypesScope):
    working_dir: str | None = None
    """The directory that the person has entered, an absolute path."""
    parent: SessionName | None = None
    """The parent of the new session."""
    model: str | None = None
    """The model that the person has entered."""


SHOW_CHOICES = Operation(
    "spawn_choices",
    """Show the directories, agent types and models among which a person chooses for a new session.

    Nothing runs git: the daemon reads a few files of each directory.""",
    "GET /v1/spawn-choices",
    SpawnChoicesView,
    SpawnScope,
    # An agent must not learn which directories exist on this host.
    audience=Audience("see_choices", "see the choices for a new session", OPERATOR),
    on_host=True,
    command="spawn",
    fields={name.lower(): {"description": f"The caller's `{name}`."} for name in location_variables()},
)
