"""The operations of reviews. Standard library alone; `reviewing` carries them out."""

from dataclasses import field
from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.states import SENT_MODES
from sm.operations import Most, Operation
from sm.operations.access_rules import ABOVE, Audience
from sm.operations.arguments import NEEDED, OneOf, Seconds, WholeNumber
from sm.operations.request_operations import ANSWER
from sm.operations.session_operations import ARCHIVE, INTERRUPT
from sm.wire_types.reviews import CommentView, DenialView, ReviewView, SentRoundView

TAG = "sessions"


@dataclass(frozen=True, slots=True)
class RoundOf:
    """The comments to list."""

    round: Annotated[int, Most(1_000_000)] | None = None
    """The number of a round, or null for the drafts."""


@dataclass(frozen=True, slots=True)
class EditedDraft:
    """One of several comments that are not sent yet."""

    text: Annotated[str, NEEDED] = ""
    path: str | None = None
    """The path of the file as git shows it, or null for the whole change."""
    side: Annotated[str, OneOf("side", ("old", "new"))] | None = None
    """`old` for lines before the change, `new` for lines after it, or null for the whole file."""
    first: int | None = None
    """The number of the first line, or null for `last`."""
    last: int | None = None
    """The number of the last line."""
    quote: str | None = None
    """The last line with its sign, on one line."""


@dataclass(frozen=True, slots=True)
class Draft(EditedDraft):
    """A comment that is not sent yet, in place of the caller's draft about the same last line, file or change.

    A draft gets a new id whenever it changes: an id names one text.
    """

    replaces: WholeNumber | None = None
    """The id of the draft that was edited, or 0 for a new comment. The call fails if that draft has changed since, or
    if there is another one about the same line. Null replaces any draft about that line."""


@dataclass(frozen=True, slots=True)
class DraftsToReplace:
    """Drafts that a person has edited together, and the ones that were shown before."""

    drafts: list[EditedDraft] = field(default_factory=list)
    shown: list[WholeNumber] = field(default_factory=list)
    """The ids of the drafts in whose place they are. Nothing happens if one of these has changed since."""


@dataclass(frozen=True, slots=True)
class DraftsToDelete:
    """The drafts to delete."""

    ids: list[WholeNumber] | None = None
    """Null for all drafts of the caller."""


@dataclass(frozen=True, slots=True)
class ReviewedDrafts:
    """Drafts to send, and the state of the changes that they are about."""

    ids: list[WholeNumber] | None = None
    """Null for all drafts of the caller."""
    tree: str | None = None
    """The tree object of git that was reviewed."""
    head: str | None = None
    """The commit that was checked out there."""
    base: str | None = None
    """The commit or tree that it was compared with."""


@dataclass(frozen=True, slots=True)
class RoundToSend(ReviewedDrafts):
    """The drafts to send, and the state of the changes that they are about."""

    mode: Annotated[str, OneOf("mode", SENT_MODES)] | None = None
    """`auto` if null."""
    ttl_s: Seconds | None = None
    """How long the message may wait, in seconds, or null for a day."""


@dataclass(frozen=True, slots=True)
class DenialToSend(ReviewedDrafts):
    """The denial of a completion, and the comments that explain it."""

    request: Annotated[str, NEEDED] = ""
    """The id of the request, such as `r57`."""
    shown: str | None = None
    """The `digest` of the request that the caller has seen: another one is not denied."""
    text: str | None = None
    """A further comment about the whole change, below the draft about it."""


REVIEW = Audience("review", "review the changes of", ABOVE)
"""The callers that may both send messages to the agent and read its contents."""
SHOW = Operation(
    "review",
    "List the caller's comments about the changes of a session: its drafts, or those of one round.",
    "GET /v1/sessions/{ref}/review",
    ReviewView,
    RoundOf,
    audience=REVIEW,
    command="review SESSION --list",
)
PUT = Operation(
    "draft_comment",
    "Keep a comment about the changes of a session as a draft.",
    "POST /v1/sessions/{ref}/review/drafts",
    CommentView,
    Draft,
    audience=REVIEW,
    command="review SESSION",
    takes_key=False,
)
REPLACE = Operation(
    "replace_drafts",
    "Keep comments about the changes of a session as drafts, in place of others. Answers with these drafts alone.",
    "POST /v1/sessions/{ref}/review/replace",
    ReviewView,
    DraftsToReplace,
    audience=REVIEW,
    command="review SESSION",
)
DISCARD = Operation(
    "discard_comments",
    "Delete drafts of the caller.",
    "POST /v1/sessions/{ref}/review/discard",
    ReviewView,
    DraftsToDelete,
    audience=REVIEW,
    command="review SESSION --discard",
    takes_key=False,
)
SEND_ROUND = Operation(
    "send_review",
    """Send drafts of the caller to the agent in one message, numbered in the order of files and lines.

    They become a round, which is kept.""",
    "POST /v1/sessions/{ref}/review/send",
    SentRoundView,
    RoundToSend,
    audience=REVIEW,
    rules=(INTERRUPT.audience, ARCHIVE.audience),
    command="review SESSION",
)
DENY_COMPLETION = Operation(
    "deny_completion",
    """Deny a completion that the session proposes, and send drafts of the caller in the same message.

    They become a round, which is kept. Either all of this happens, or nothing.""",
    "POST /v1/sessions/{ref}/review/deny",
    DenialView,
    DenialToSend,
    audience=REVIEW,
    rules=(ANSWER.audience, ARCHIVE.audience),
    command="deny REQUEST --review",
)
OPERATIONS = (SHOW, PUT, REPLACE, DISCARD, SEND_ROUND, DENY_COMPLETION)
