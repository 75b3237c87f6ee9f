"""Users of chat networks: those who are paired, and requests of those who want to be. Pure data."""

from sm.core.dataclass import dataclass
from sm.core.models import BridgeUser
from sm.core.states import BridgeLevel
from sm.core.statuses import Tolerant


class PairState(Tolerant):
    """States of a request for pairing."""

    OPEN = "open"
    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class PairRequest:
    """A user of a chat network who asked to be paired. Times are ISO 8601 UTC with `Z`."""

    id: int
    user: str
    """As `BridgeUser.name`."""
    label: str
    """The name that the user chose in the network. Anybody can choose any name."""
    state: PairState
    created_at: str
    replied_at: str
    """The last time at which the user got a reply."""

    @property
    def name(self) -> str:
        return f"p{self.id}"


@dataclass(frozen=True, slots=True)
class Pairing:
    """A user of a chat network who may use this instance."""

    user: str
    """As `BridgeUser.name`."""
    label: str
    """As `PairRequest.label`."""
    level: BridgeLevel
    """Never owner: only the configuration names owners."""
    workspace: str | None
    """As `BridgeUser.workspace`."""
    created_at: str
    created_by: str
    """The caller that approved the request."""

    @property
    def bridge_user(self) -> BridgeUser:
        return BridgeUser(self.user, self.level, self.workspace)
