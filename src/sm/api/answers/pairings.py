"""The JSON objects in the answers of the routes of pairings."""

from typing import Annotated

from typing_extensions import TypedDict  # pydantic reads the one of `typing` only from Python 3.12 on

from sm.api.fields import doc
from sm.core.states import TrustLevel
from sm.wire_types.fields import words


class PairRequestView(TypedDict):
    """A user of a chat network who asked to be paired."""

    request_id: Annotated[str, doc("Such as `p3`.")]
    user: Annotated[str, doc("The network and the user's number in it: `telegram:4711`.")]
    label: Annotated[str, doc("The name that the user chose in the network.")]
    created_at: str
    state: str


class PairingView(TypedDict):
    """A user of a chat network who may use this instance."""

    user: Annotated[str, doc("The network and the user's number in it: `telegram:4711`.")]
    label: Annotated[str, doc("The name that the user chose in the network.")]
    trust_level: Annotated[str, words(tuple(TrustLevel))]
    workspace: Annotated[str | None, doc("The user's workspace; null: the user has only their own sessions.")]
    created_at: str
    created_by: Annotated[str, doc("Who approved the request.")]


class PairOverviewView(TypedDict):
    requests: Annotated[list[PairRequestView], doc("The open requests, oldest first.")]
    users: list[PairingView]


class RevokedUserView(TypedDict):
    user: str
    sessions: Annotated[int, doc("The number of the user's sessions, which belong to the operator now.")]
