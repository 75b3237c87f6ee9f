"""The operations of pull requests. Standard library alone; `recording` carries them out."""

from typing import Annotated

from sm.capabilities.pull_requests.model import ReportKind
from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import ABOVE, Audience
from sm.operations.arguments import NEEDED, OneOf, WholeNumber
from sm.operations.session_operations import ARCHIVE
from sm.wire_types.pull_requests import PullRequestView, RecordedPullRequestView, ReportedPullRequestView

TAG = "sessions"


@dataclass(frozen=True, slots=True)
class OpenPullRequest:
    """A pull request that exists."""

    url: Annotated[str, NEEDED] = ""
    """Its page, over https or http."""
    number: Annotated[WholeNumber, NEEDED] = 0
    branch: Annotated[str, NEEDED] = ""
    """The branch of the session that it is about."""


@dataclass(frozen=True, slots=True)
class PullRequestReport:
    """News of a pull request of the session."""

    url: Annotated[str, NEEDED] = ""
    key: Annotated[str, NEEDED] = ""
    """A name for the news: a second report with the same one does nothing."""
    kind: Annotated[str, OneOf("kind", tuple(ReportKind)), NEEDED] = ""
    name: str | None = None
    """The name of the check, or of the user who reviews or comments."""
    outcome: Annotated[str, NEEDED] = ""
    """Small letters and underscores, such as `failure` or `approved`. For a state `merged` or `closed`."""
    text: str | None = None
    """The message for the agent, or null for none. Those of checks are limited by `pr.retries`."""


FOLLOW = Audience("pull_request", "follow the pull requests of", ABOVE)
SHOW = Operation(
    "pull_requests",
    "List the pull requests of a session that sm knows, the oldest first.",
    "GET /v1/sessions/{ref}/pull-requests",
    list[PullRequestView],
    audience=FOLLOW,
    command="pr SESSION",
    on_host=True,
)
RECORD = Operation(
    "record_pull_request",
    "Record that a pull request of a session exists. The first time it becomes an event of the session.",
    "POST /v1/sessions/{ref}/pull-requests",
    RecordedPullRequestView,
    OpenPullRequest,
    audience=FOLLOW,
    command="pr SESSION",
    on_host=True,
    takes_key=False,
)
REPORT = Operation(
    "report_pull_request",
    """Report news of a recorded pull request. The first time it becomes an event of the session.

    The message is sent to the agent then, unless it has ended or `pr.retries` failed checks were sent.""",
    "POST /v1/sessions/{ref}/pull-requests/reports",
    ReportedPullRequestView,
    PullRequestReport,
    audience=FOLLOW,
    rules=(ARCHIVE.audience,),
    command="pr SESSION --watch",
    on_host=True,
    takes_key=False,
)
OPERATIONS = (SHOW, RECORD, REPORT)
