"""The operations of agent types, and those that show what an agent does: its terminal, its progress and its status."""

from typing import TYPE_CHECKING, Annotated

from sm.core.dataclass import dataclass
from sm.core.programs import location_variables
from sm.operations import EventStream, Most, Operation
from sm.operations.access_rules import (
    EVERY_CALLER,
    OPERATOR,
    READ,
    READ_ALSO_ITSELF,
    SEE,
    Audience,
    CallerRole,
)
from sm.operations.arguments import LISTED, LISTED_MAX, CheckpointLimit, InWorkspace, SeenByPerson
from sm.operations.request_operations import ALLOW_ALWAYS
from sm.wire_types.agent_answers import (
    ActionView,
    AgentTypesView,
    AttachView,
    OutputView,
    ProgressView,
    SummaryView,
    WhyView,
)
from sm.wire_types.fields import Time
from sm.wire_types.live_answers import ScreenUpdateView


@dataclass(frozen=True, slots=True)
class _TypesScope(InWorkspace):
    cwd: str | None = None
    """The caller's directory."""

    def variables(self) -> dict[str, str]:
        """The variables of the caller that locate files of agent CLIs."""
        given = {name: getattr(self, name.lower(), None) for name in location_variables()}
        return {name: value for name, value in given.items() if value}


if TYPE_CHECKING:
    TypesScope = _TypesScope
else:
    _VARIABLES = [name.lower() for name in location_variables()]
    _FIELDS = {"__annotations__": dict.fromkeys(_VARIABLES, str | None), **dict.fromkeys(_VARIABLES)}
    TypesScope = dataclass(frozen=True, slots=True)(type("TypesScope", (_TypesScope,), _FIELDS))


@dataclass(frozen=True, slots=True)
class NewestActions(SeenByPerson):
    lines: Annotated[int, Most(LISTED_MAX)] = 10
    after: Time | None = None
    """Only later actions."""


@dataclass(frozen=True, slots=True)
class OutputLines(SeenByPerson):
    """The lines to show."""

    lines: Annotated[int, Most(LISTED_MAX)] = 50


@dataclass(frozen=True, slots=True)
class ProgressParts:
    """The parts of the progress to show."""

    checkpoints: CheckpointLimit = LISTED
    """Only the newest checkpoints."""
    tree: bool = False
    """If present, include the sums of the session and its descendants."""


LIST_AGENT_TYPES = Operation(
    "agent_types",
    "List the agent types that the caller can spawn.",
    "GET /v1/agents",
    AgentTypesView,
    TypesScope,
    audience=EVERY_CALLER,
    rules=(ALLOW_ALWAYS,),
    command="agents",
    tool="list_agent_types",
    audit="agents",
    fields={name.lower(): {"description": f"The caller's `{name}`."} for name in location_variables()},
)
READ_OUTPUT = Operation(
    "output",
    "Show the last lines of a session's terminal, or of its saved output once the terminal is closed.",
    "GET /v1/sessions/{ref}/output",
    OutputView,
    OutputLines,
    audience=READ,
    command="output SESSION",
    tool="read_session_output",
    chat="output",
    chat_form="ID [LINES]",
    chat_help="show the last lines of the terminal",
    key="v",
    title="View the terminal",
)
FOLLOW_SCREEN = Operation(
    "follow_screen",
    """Stream the visible screen of a session's terminal: all rows, then those that change.

    At most 4 times a second. A reader that is slower gets the newest state of each row. A comment line comes every
    15 s. The stream ends with the agent's process.""",
    "GET /v1/sessions/{ref}/screen/stream",
    EventStream(ScreenUpdateView),
    SeenByPerson,
    audience=READ,
    rules=(READ_ALSO_ITSELF,),
    audit="screen",
)
ATTACH = Operation(
    "attach",
    "Show the command that attaches a person's terminal to a session.",
    "GET /v1/sessions/{ref}/attach",
    AttachView,
    SeenByPerson,
    audience=Audience("attach", "attach to", OPERATOR | {CallerRole.ANCESTOR}),
    on_host=True,
    command="attach SESSION",
    key="o",
    title="Attach to the terminal",
)
SHOW_PROGRESS = Operation(
    "progress",
    "Show the progress of a session.",
    "GET /v1/sessions/{ref}/progress",
    ProgressView,
    ProgressParts,
    audience=SEE,
    rules=(READ_ALSO_ITSELF,),
    command="progress SESSION",
    tool="get_progress",
    chat="progress",
    chat_form="ID",
    chat_help="show tokens, cost and the newest checkpoint",
)
WHY = Operation(
    "why",
    "Explain the status of a session.",
    "GET /v1/sessions/{ref}/why",
    WhyView,
    audience=SEE,
    rules=(READ_ALSO_ITSELF,),
    command="why SESSION",
    tool="get_progress",
    key="w",
    title="Explain the status",
)
LIST_ACTIONS = Operation(
    "actions",
    "List the last actions of an agent, oldest first.",
    "GET /v1/sessions/{ref}/actions",
    list[ActionView],
    NewestActions,
    audience=READ,
    command="tail SESSION",
)
SUMMARIZE = Operation(
    "what",
    "Summarize a session in a few sentences.",
    "POST /v1/sessions/{ref}/what",
    SummaryView,
    audience=READ,
    command="what SESSION",
    chat="what",
    chat_form="ID",
    chat_help="summarize a session in a few sentences",
    takes_key=False,
    reads_body=False,
)
