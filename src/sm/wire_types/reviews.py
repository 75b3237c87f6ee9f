"""Reviews in answers."""

from collections.abc import Sequence
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.wire_types.fields import SessionLabel, Time, narrowed


@dataclass(frozen=True, slots=True)
class CommentView:
    """A comment about the changes of a session."""

    id: int
    number: int
    """The number in its round, by which the agent answers; 0 for a draft."""
    path: str | None
    """The path of the file as git shows it, or null for the whole change."""
    side: Annotated[str, narrowed("string", enum=["old", "new"])] | None
    """The side of the lines: before the change, or after it. Null for a file or the whole change."""
    first: int | None
    """The number of the first line."""
    last: int | None
    """The number of the last line."""
    quote: str
    """The last line with its sign."""
    text: str


@dataclass(frozen=True, slots=True)
class RoundView:
    """A round: comments that went to the agent in one message."""

    number: int
    """From 1 for each session and reviewer."""
    message_id: int
    sent_at: Time
    tree: str
    """The tree object of git that was reviewed, or empty."""
    head: str
    """The commit that was checked out there, or empty."""
    base: str
    """The commit or tree that it was compared with, or empty."""
    count: int
    """The number of comments."""


@dataclass(frozen=True, slots=True)
class ReviewView:
    """The review of a session by the caller."""

    session_id: str
    label: SessionLabel
    comments: Sequence[CommentView]
    """The drafts, or the comments of one round, in the order of files and lines."""
    rounds: Sequence[RoundView]
    """The newest first."""


@dataclass(frozen=True, slots=True)
class SentRoundView(RoundView):
    """A round that was sent."""

    session_id: str
    label: SessionLabel
    unarchived: bool
    """True if the session was archived, and the message has unarchived it."""
    comments: Sequence[CommentView]


@dataclass(frozen=True, slots=True)
class DenialView(SentRoundView):
    """A round that was sent with the denial of a completion."""

    request_id: str
    """The request that was denied."""
