"""The operations of reports: milestones, notes and results of sessions."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import REPORT, SEE
from sm.operations.arguments import LISTED, NEEDED, CheckpointLimit
from sm.wire_types.agent_answers import CheckpointView, ReportedCheckpointView
from sm.wire_types.fields import Anything, words
from sm.wire_types.session_answers import StartedView


@dataclass(frozen=True, slots=True)
class NewestCheckpoints:
    """The milestones to list."""

    limit: CheckpointLimit = LISTED
    """Only the newest checkpoints."""


@dataclass(frozen=True, slots=True)
class Milestone:
    """A milestone."""

    message: Annotated[str, NEEDED] = ""
    """Cut to 50,000 characters."""
    metadata: Anything | None = None
    """At most 50 entries and 64 KiB; kept as texts."""


@dataclass(frozen=True, slots=True)
class ActivityNote:
    """The current activity."""

    text: str | None = None
    """One line of 200 characters is kept. Empty or null removes the note."""


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The end of the work."""

    message: str | None = None
    """Cut to 50,000 characters."""
    status: Annotated[str, words(["completed", "error", "abandoned"])] | None = None
    """`completed` if null."""


LIST_CHECKPOINTS = Operation(
    "checkpoints",
    "List the newest milestones of a session, oldest first.",
    "GET /v1/sessions/{ref}/checkpoints",
    list[CheckpointView],
    NewestCheckpoints,
    audience=SEE,
    command="checkpoints SESSION",
)
CHECKPOINT = Operation(
    "checkpoint",
    "Report a milestone of the calling session.",
    "POST /v1/sessions/me/checkpoints",
    ReportedCheckpointView,
    Milestone,
    audience=REPORT,
    command="checkpoint TEXT",
)
NOTE = Operation(
    "note",
    "Report the current activity of the calling session.",
    "POST /v1/sessions/me/note",
    StartedView,
    ActivityNote,
    audience=REPORT,
    command="note TEXT",
    tool="report_note",
)
COMPLETE = Operation(
    "complete",
    "Report that the calling session is done.",
    "POST /v1/sessions/me/complete",
    StartedView,
    WorkResult,
    audience=REPORT,
    command="complete RESULT",
    tool="complete_session",
)
