"""Pull requests of sessions."""

from enum import StrEnum

from sm.core.dataclass import dataclass

PULL_REQUESTS_MAX = 50
"""The limit of pull requests for each session."""
REPORTS_MAX = 5_000
"""The limit of reports about one pull request."""
URL_MAX = 1_000
NAME_MAX = 200


class PullRequestState(StrEnum):
    """The values are stored in the database, so they never change."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


class ReportKind(StrEnum):
    """The subjects of reports about a pull request."""

    CHECK = "check"
    REVIEW = "review"
    COMMENT = "comment"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request of the branch of a session."""

    session_id: str
    url: str
    number: int
    branch: str
    state: PullRequestState
    retries: int
    """The number of failed checks that were sent to the agent."""
    recorded_at: str
