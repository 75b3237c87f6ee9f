"""Pull requests in answers."""

from collections.abc import Sequence
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.wire_types.fields import SessionLabel, Time, narrowed


@dataclass(frozen=True, slots=True)
class RecordedPullRequestView:
    """A pull request of the branch of a session."""

    session_id: str
    label: SessionLabel
    url: str
    number: int
    branch: str
    state: Annotated[str, narrowed("string", enum=["open", "merged", "closed"])]
    """The state at the last report."""
    retries: int
    """The number of failed checks that were sent to the agent."""
    recorded_at: Time


@dataclass(frozen=True, slots=True)
class ReportedPullRequestView(RecordedPullRequestView):
    """A pull request after a report."""

    is_new: bool
    """False if the news was reported before: nothing has happened then."""
    message_id: int | None
    """The message to the agent, or null without one."""
    unsent: str | None
    """The reason for which the agent gets no message, or null."""


@dataclass(frozen=True, slots=True)
class PullRequestView(RecordedPullRequestView):
    """A pull request with what was reported about it."""

    reported: Sequence[str]
    """The keys of its checks, reviews and comments that are events of the session already."""
