"""The types of arguments that several operations have, and the marks in their annotations that doors check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sm.operations import Most
from sm.wire_types.fields import narrowed


@dataclass(frozen=True, slots=True)
class Needed:
    """Documents an argument as required. A missing or null text counts as an empty one, which the use case refuses."""


@dataclass(frozen=True, slots=True)
class Within:
    """Limits a number, in the annotation of an argument: another one is refused."""

    least: float
    most: float


LISTED = 50
LISTED_MAX = 10_000
WAIT_MAX_S = 25.0
"""The longest wait of one request, shorter than a client's timeout. For a longer wait a client repeats the request."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Limits a text of a body, in the annotation of an argument, to a closed set. An empty one counts as none."""

    noun: str
    options: Sequence[str]


NEEDED = Needed()
CHECKPOINTS_MAX = 200
"""Checkpoints can be so large that the answer with more of them would be too large for a client."""
Limit = Annotated[int, Most(LISTED_MAX)]
CheckpointLimit = Annotated[int, Most(CHECKPOINTS_MAX)]
WholeNumber = Annotated[int, Within(-(10**18), 10**18), narrowed("integer")]
Seconds = Annotated[float, Within(0, 86_400)]
LongText = Annotated[str, narrowed("string", maxLength=10_000)]


@dataclass(frozen=True, slots=True)
class NewsWait:
    """The time to wait for news."""

    wait_s: Annotated[int, Most(int(WAIT_MAX_S))] = 0
    """How long to wait for news, in seconds, cut to 25."""


@dataclass(frozen=True, slots=True)
class SeenByPerson:
    """Shows one session."""

    seen: bool = False
    """If present, mark the session as seen, because a person reads this. Only the operator can."""
