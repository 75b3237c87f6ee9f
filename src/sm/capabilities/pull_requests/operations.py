"""The operations of pull requests. Standard library alone; `recording` carries them out."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import ABOVE, Audience
from sm.operations.arguments import NEEDED, WholeNumber
from sm.wire_types.pull_requests import PullRequestView, RecordedPullRequestView

TAG = "sessions"


@dataclass(frozen=True, slots=True)
class OpenPullRequest:
    """A pull request that exists."""

    url: Annotated[str, NEEDED] = ""
    """Its page, over https or http."""
    number: Annotated[WholeNumber, NEEDED] = 0
    branch: Annotated[str, NEEDED] = ""
    """The branch of the session that it is about."""


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
OPERATIONS = (SHOW, RECORD)
