"""The JSON objects in the answers of the routes of pairings."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.core.states import TrustLevel
from sm.wire_types.fields import words


@dataclass(frozen=True, slots=True)
class PairRequestView:
    """A user of a chat network who asked to be paired."""

    request_id: str
    """For commands, such as `p3`."""
    user: str
    """The network and the user's number in it: `telegram:4711`."""
    label: str
    """The name that the user chose in the network."""
    created_at: str
    state: str


@dataclass(frozen=True, slots=True)
class PairingView:
    """A user of a chat network who may use this instance."""

    user: str
    """The network and the user's number in it: `telegram:4711`."""
    label: str
    """The name that the user chose in the network."""
    trust_level: Annotated[str, words(tuple(TrustLevel))]
    workspace: str | None
    """The user's workspace, or null if the user has only their own sessions."""
    created_at: str
    created_by: str
    """The caller that approved the request."""


@dataclass(frozen=True, slots=True)
class PairOverviewView:
    requests: list[PairRequestView]
    """The open requests, oldest first."""
    users: list[PairingView]


@dataclass(frozen=True, slots=True)
class RevokedUserView:
    user: str
    sessions: int
    """The number of the user's sessions, which belong to the operator now."""
