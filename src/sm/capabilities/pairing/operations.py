"""The operations of pairing. Standard library alone; `pairings` carries them out."""

from sm.capabilities.pairing.words import denied_words, paired_words
from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import OPERATOR_AND_OWNERS, Audience
from sm.wire_types.pairings import PairingView, PairOverviewView, PairRequestView, RevokedUserView

TAG = "pairings"
_TARGET = (
    "The id of a request, such as `p3`; to revoke a user, the name of the user, such as `telegram:4711`."
)


@dataclass(frozen=True, slots=True)
class UserApproval:
    """The authority of the user."""

    trust: str | None = None
    """`sandboxed` or `direct`, or null for sandboxed."""
    workspace: str | None = None
    """The user sees and controls the sessions of this workspace, or only the user's own sessions if null."""


_PAIR = Audience("pair", "pair or revoke users of chat networks", OPERATOR_AND_OWNERS)
"""An owner decides on requests with the buttons of a chat."""
LIST = Operation(
    "pairings",
    "List the paired users of chat networks and the open requests.",
    "GET /v1/pairings",
    PairOverviewView,
    audience=_PAIR,
    command="pair list",
)
APPROVE = Operation(
    "approve_user",
    "Pair the user of a request.",
    "POST /v1/pairings/{request_id}/approve",
    PairingView,
    UserApproval,
    audience=_PAIR,
    target=_TARGET,
    command="pair approve ID",
    button="pair",
    done=paired_words,
)
DENY = Operation(
    "deny_user",
    "Deny a request for pairing.",
    "POST /v1/pairings/{request_id}/deny",
    PairRequestView,
    audience=_PAIR,
    target=_TARGET,
    command="pair deny ID",
    button="refuse",
    done=denied_words,
)
REVOKE = Operation(
    "revoke_user",
    "End the pairing of a user. The user's sessions go on and belong to the operator.",
    "POST /v1/pairings/{user}/revoke",
    RevokedUserView,
    audience=_PAIR,
    target=_TARGET,
    command="pair revoke USER",
)
OPERATIONS = (LIST, APPROVE, DENY, REVOKE)
