"""Comments on the changes of a session, and the rounds in which they were sent."""

from enum import StrEnum

from sm.core.dataclass import dataclass

DRAFTS_MAX = 200
"""The limit of drafts for each session and person."""
ROUNDS_MAX = 50
"""The rounds that are kept for each session and person, the newest ones."""
COMMENT_MAX = 4_000
PATH_MAX = 4_096
QUOTE_MAX = 400
LINE_MAX = 1_000_000_000


class Side(StrEnum):
    """The values are stored in the database, so they never change."""

    OLD = "old"
    """The lines before the change."""
    NEW = "new"


@dataclass(frozen=True, slots=True)
class CommentPlace:
    """The part of a change that a comment is about."""

    path: str | None = None
    """The path of the file as git shows it, or None for the whole change."""
    side: Side | None = None
    """None for a whole file."""
    first: int | None = None
    """The number of the first line, from 1."""
    last: int | None = None

    @property
    def anchor(self) -> tuple[str | None, Side | None, int | None]:
        """The part of the place by which a comment is found: a range by its last line."""
        return (self.path, self.side, self.last)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of a person about the changes of a session."""

    id: int
    """A draft gets a new one whenever it changes: nobody then sends a text that another window has changed."""
    session_id: str
    person: str
    """The name of the caller who wrote it."""
    round: int
    """The number of the round that it was sent with, or 0 for a draft."""
    number: int
    """Its number in the round, from 1; 0 for a draft."""
    place: CommentPlace
    quote: str
    """The last line that the comment is about, with its sign, as a person has seen it. Empty for a file or a change."""
    text: str

    @property
    def subject(self) -> tuple[object, ...]:
        """The line that the comment is about. No two drafts of a person share it."""
        return (*self.place.anchor, self.quote)


@dataclass(frozen=True, slots=True)
class Round:
    """Comments that went to the agent in one message."""

    session_id: str
    number: int
    """From 1 for each session and person."""
    person: str
    message_id: int
    sent_at: str
    tree: str
    """The tree object of git that was reviewed, or empty if the sender named none."""
    head: str
    """The commit that was checked out there, or empty."""
    base: str
    """The commit or tree that it was compared with, or empty."""
    count: int
    """The number of comments."""
