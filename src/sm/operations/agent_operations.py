"""The operations that show what an agent does: its terminal, its progress and its status."""

from dataclasses import dataclass
from typing import Annotated

from sm.operations import Most, Operation
from sm.operations.arguments import LISTED, LISTED_MAX, CheckpointLimit, SeenByPerson
from sm.wire_types.agent_answers import AttachView, OutputView, ProgressView, SummaryView, WhyView


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


READ_OUTPUT = Operation(
    "output",
    "Show the last lines of a session's terminal, or of its saved output once the terminal is closed.",
    "GET",
    "/v1/sessions/{ref}/output",
    OutputView,
    OutputLines,
    command="output SESSION",
    tool="read_session_output",
    chat="output",
    agents=True,
)
ATTACH = Operation(
    "attach",
    "Show the command that attaches a person's terminal to a session.",
    "GET",
    "/v1/sessions/{ref}/attach",
    AttachView,
    SeenByPerson,
    command="attach SESSION",
)
SHOW_PROGRESS = Operation(
    "progress",
    "Show the progress of a session.",
    "GET",
    "/v1/sessions/{ref}/progress",
    ProgressView,
    ProgressParts,
    command="progress SESSION",
    tool="get_progress",
    chat="progress",
    agents=True,
)
WHY = Operation(
    "why",
    "Explain the status of a session.",
    "GET",
    "/v1/sessions/{ref}/why",
    WhyView,
    command="why SESSION",
    tool="get_progress",
    agents=True,
)
SUMMARIZE = Operation(
    "what",
    "Summarize a session in a few sentences.",
    "POST",
    "/v1/sessions/{ref}/what",
    SummaryView,
    command="what SESSION",
    chat="what",
    takes_key=False,
    reads_body=False,
    agents=True,
)
