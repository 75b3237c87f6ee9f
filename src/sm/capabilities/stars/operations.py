"""The operations of stars. Standard library alone; `setup` carries them out."""

from dataclasses import dataclass

from sm.operations import Operation
from sm.operations.audiences import SESSION_AND_ABOVE, Audience
from sm.wire_types.session_answers import StarView

TAG = "sessions"
_STAR = Audience("star", "star", SESSION_AND_ABOVE)


@dataclass(frozen=True, slots=True)
class NewStar:
    """The star."""

    reason: str | None = None
    """A few words for lists."""


STAR = Operation(
    "star",
    "Mark a session with a star for some hours.",
    "POST /v1/sessions/{ref}/star",
    StarView,
    NewStar,
    audience=_STAR,
    command="star SESSION",
    tool="star_session",
    chat="star",
    done=lambda star: f"Starred until {star.until}",
    key="*",
    title="Star",
)
UNSTAR = Operation(
    "unstar",
    "Remove the star of a session.",
    "POST /v1/sessions/{ref}/unstar",
    StarView,
    audience=_STAR,
    takes_key=False,
    command="star --off SESSION",
    chat="unstar",
    key="-",
    title="Remove the star",
)
OPERATIONS = (STAR, UNSTAR)
