"""Identifies people in chat networks: the owners of the configuration, and users whom a capability admits."""

from collections.abc import Iterable, Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.core.models import BridgeUser, Caller, RequestKey
from sm.core.states import BridgeLevel, CallerKind
from sm.core.text import folded
from sm.errors import NotPermitted
from sm.policy.limits import elapsed_s
from sm.store import Open, Store
from sm.store.audit import REFUSED, Record

_CALL = "call"
_LOGGED_EVERY_S = 600.0
_LOGGED_USERS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class OwnerQuestion:
    """Asks the owners to decide on a request."""

    text: str
    about: str
    """The object of its messages: an answer in one of them ends the buttons of all."""
    buttons: Sequence[tuple[str, str]]
    """The label and the action of each: `Operation.button` and the target."""
    expires_s: float


@dataclass(frozen=True, slots=True)
class AdmissionReply:
    """The reply to an unknown user who asks for access."""

    text: str
    question: OwnerQuestion | None
    """None if the owners have it already."""


class Admission:
    """Admits users of chat networks who are no owners. This one admits nobody."""

    def users(self, open: Open) -> Mapping[str, BridgeUser]:
        """The admitted users by name, as committed or as of a transaction."""
        return {}

    async def ask(self, user: str, label: str, key: RequestKey | None) -> AdmissionReply | None:
        """Ask for access. `label`: the name that the user chose in the network. Returns None to send no reply."""
        return None


class ChatUsers:
    """`owners`: the names of the users with the authority of owners (`BridgeUser.name`)."""

    def __init__(self, store: Store, audit: Record, owners: Iterable[str]) -> None:
        self._store = store
        self._audit = audit
        self.owners = tuple(owners)
        self.admissions: list[Admission] = []
        self._refused = dict[str, tuple[str, int]]()
        """The users who were refused: the time of their last line in the audit log, and the refusals since."""

    @property
    def admitted(self) -> list[str]:
        """The names of all users who are no owners."""
        return [name for admission in self.admissions for name in admission.users(self._store.mail.open)]

    def caller(self, user: str) -> Caller:
        """The caller for a user of a chat network. A front door asks for each message and for each button.

        Raises NotPermitted for an unknown user, and writes it to the audit log.
        """
        if user in self.owners:
            return Caller(CallerKind.BRIDGE, user=BridgeUser(user, BridgeLevel.OWNER))
        open = self._store.mail.open
        known = next(filter(None, (admission.users(open).get(user) for admission in self.admissions)), None)
        if known is None:
            self._record_stranger(user)
            error = NotPermitted(f"user {folded(user, 80)} is not paired", "sm pair list")
            error.recorded = True
            raise error
        self._refused.pop(user, None)
        return Caller(CallerKind.BRIDGE, user=known)

    async def ask(self, user: str, label: str, key: RequestKey | None = None) -> AdmissionReply | None:
        """Ask for access, as `Admission.ask`."""
        for admission in self.admissions:
            if (reply := await admission.ask(user, label, key)) is not None:
                return reply
        self._record_stranger(user)
        return None

    def _record_stranger(self, user: str) -> None:
        """Write one line for each user in ten minutes: a stranger must not be able to fill the log."""
        now = self._store.now()
        at, count = self._refused.pop(user, ("", 0))
        since_s = elapsed_s(at or None, now)
        if since_s is not None and since_s < _LOGGED_EVERY_S:
            self._refused[user] = (at, count + 1)
            return
        more = f"; {count} more times since the last line" if count else ""
        self._audit(user, _CALL, None, REFUSED, f"not paired{more}")
        self._refused[user] = (now, 0)
        if len(self._refused) > _LOGGED_USERS_MAX:
            del self._refused[next(iter(self._refused))]
