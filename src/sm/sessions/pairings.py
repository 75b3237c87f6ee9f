"""Use cases of pairing: identifies people in chat networks, and lets the operator pair and revoke them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sm.core.models import BridgeUser, Caller, RequestKey
from sm.core.pairing import Pairing, PairRequest, PairState
from sm.core.states import BridgeLevel, CallerKind, TrustLevel
from sm.core.text import folded
from sm.errors import IllegalState, NotFound, NotPermitted, UsageError
from sm.policy.access import Action
from sm.policy.limits import elapsed_s
from sm.policy.pairing import PairDecision, decide_request, has_expired, open_requests
from sm.policy.trust import normalize_trust_level
from sm.sessions.manager import Manager
from sm.sessions.workdir import no_such_workspace
from sm.store import Open, Store, Transaction
from sm.store.audit import ALLOWED, REFUSED, Record
from sm.wire_types.pairings import RevokedUserView

_ASK = "ask_to_pair"
_CALL = "call"
_LABEL_MAX = 80
_LOGGED_EVERY_S = 600.0
_LOGGED_USERS_MAX = 1_000
_NAME = re.compile(r"p?([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class PairOverview:
    requests: list[PairRequest]
    """Open, oldest first."""
    pairings: list[Pairing]


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """The decision on a request of an unknown user. `request` None: the user gets no reply."""

    decision: PairDecision
    request: PairRequest | None


class Pairings:
    """`owners`: the names of the users with the authority of owners (`BridgeUser.name`)."""

    def __init__(self, store: Store, manager: Manager, audit: Record, owners: Iterable[str]) -> None:
        self._store = store
        self._manager = manager
        self._audit = audit
        self._owners = frozenset(owners)
        self._refused = dict[str, tuple[str, int]]()
        """The users who were refused: the time of their last line in the audit log, and the refusals since."""

    # Identification

    def caller(self, user: str) -> Caller:
        """The caller for a user of a chat network. A front door asks for each message and for each button.

        Raises NotPermitted for a user who is not paired, and writes it to the audit log.
        """
        if user in self._owners:
            return Caller(CallerKind.BRIDGE, user=BridgeUser(user, BridgeLevel.OWNER))
        pairing = self._store.mail.open.pairings.get(user)
        if pairing is None:
            self._record_stranger(user)
            error = NotPermitted(f"user {folded(user, 80)} is not paired", "sm pair list")
            error.recorded = True
            raise error
        self._refused.pop(user, None)
        return Caller(CallerKind.BRIDGE, user=pairing.bridge_user)

    def _record_stranger(self, user: str) -> None:
        """Write one line for each user in ten minutes: a stranger must not be able to fill the log."""
        now = self._manager.now()
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

    # Requests of unknown users

    async def ask(self, user: str, label: str, key: RequestKey | None = None) -> PairAnswer:
        """Request that the operator pairs `user`. `label`: the name that the user chose in the network."""
        async with self._store.transaction(None, key) as tx:
            if tx.replayed is not None:
                decision, _, name = tx.replayed.partition(" ")
                return PairAnswer(PairDecision[decision], self._request(tx.mail.open, name))
            answer = self._decide(tx, user, label)
            if answer.request is not None:
                tx.remember(f"{answer.decision.name} {answer.request.name}")
        if answer.request is None:
            self._record_stranger(user)
        else:
            self._audit(user, _ASK, answer.request.name, ALLOWED, answer.decision)
        return answer

    def _decide(self, tx: Transaction, user: str, label: str) -> PairAnswer:
        for old in list(tx.mail.open.pair_requests.values()):
            if has_expired(old, tx.now):
                tx.pairings.remove_request(old)
        requests = tx.mail.open.pair_requests.values()
        decision = decide_request(user, requests, tx.now)
        request: PairRequest | None = None
        if decision is PairDecision.OPEN:
            number = tx.mail.new_id("pair_requests")
            name = folded(label, _LABEL_MAX)
            request = PairRequest(number, user, name, PairState.OPEN, tx.now, tx.now)
        elif decision is PairDecision.REPEAT:
            (known,) = (r for r in requests if r.user == user and r.state is PairState.OPEN)
            request = replace(known, replied_at=tx.now)
        if request is not None:
            tx.pairings.put_request(request)
        return PairAnswer(decision, request)

    # Decisions of the operator and of owners

    def overview(self, caller: Caller) -> PairOverview:
        """The open requests and the paired users. Raises NotPermitted."""
        self._manager.require(caller, Action.PAIR, is_read=True)
        open = self._store.mail.open
        requests = open_requests(open.pair_requests.values(), self._manager.now())
        return PairOverview(requests, list(open.pairings.values()))

    async def approve(
        self, caller: Caller, reference: str, trust: str | None, workspace: str | None, key: RequestKey | None
    ) -> Pairing:
        """Pair the user of a request. `trust` None: sandboxed. Earlier sessions of a paired user stay with that user.

        Raises NotPermitted, NotFound, UsageError, IllegalState for a request that is no longer open.
        """
        self._manager.require(caller, Action.PAIR, reference, "approve", is_read=True)
        level = _level(trust)
        where = "" if workspace is None else f" in workspace {workspace}"
        known = self._request(self._store.mail.open, reference)
        self._manager.require(caller, Action.PAIR, known.user, f"approve {known.name} as {level}{where}")
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                return _require_paired(tx, tx.replayed)
            request = self._open_request(tx, reference)
            if workspace is not None:
                found = tx.workspace(workspace)
                if found is None or found.deleted_at is not None:
                    raise no_such_workspace(workspace, tx.all_workspaces())
            pairing = Pairing(request.user, request.label, level, workspace, tx.now, str(caller))
            tx.pairings.put(pairing)
            tx.pairings.put_request(replace(request, state=PairState.APPROVED))
            tx.remember(pairing.user)
        return pairing

    async def deny(self, caller: Caller, reference: str, key: RequestKey | None) -> PairRequest:
        """Deny a request. Its user gets no reply until the request expires. Raises the errors of `approve`."""
        self._manager.require(caller, Action.PAIR, reference, "deny", is_read=True)
        known = self._request(self._store.mail.open, reference)
        self._manager.require(caller, Action.PAIR, known.user, f"deny {known.name}")
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                return self._request(tx.mail.open, tx.replayed)
            request = self._open_request(tx, reference)
            denied = replace(request, state=PairState.DENIED)
            tx.pairings.put_request(denied)
            tx.remember(denied.name)
        return denied

    async def revoke(self, caller: Caller, user: str, key: RequestKey | None) -> RevokedUserView:
        """End a pairing, and give the user's sessions to the operator. The sessions go on.

        `user`: also the number alone, if only one network has it. Raises NotPermitted, NotFound.
        """
        known = _named(self._store.mail.open, user)
        self._manager.require(caller, Action.PAIR, user if known is None else known.user, "revoke")
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                name, _, sessions = tx.replayed.partition(" ")
                return RevokedUserView(name, int(sessions))
            pairing = self._paired(tx, user)
            own = [s for s in tx.all_sessions() if s.paired_user == pairing.user]
            for session in own:
                await tx.update(session, paired_user=None)
            tx.pairings.remove(pairing.user)
            tx.remember(f"{pairing.user} {len(own)}")
        return RevokedUserView(pairing.user, len(own))

    def _paired(self, tx: Transaction, user: str) -> Pairing:
        found = _named(tx.mail.open, user)
        if found is None:
            in_config = user in self._owners
            raise NotFound(
                f"user {folded(user, 80)} is not paired",
                "owners are in config.yaml" if in_config else "list paired users: sm pair list",
            )
        return found

    def _request(self, open: Open, reference: str) -> PairRequest:
        name = _NAME.fullmatch(reference.lower())
        request = None if name is None else open.pair_requests.get(int(name[1]))
        if request is None:
            raise NotFound(f"no such pairing request: {folded(reference, 40)}", "list requests: sm pair list")
        return request

    def _open_request(self, tx: Transaction, reference: str) -> PairRequest:
        request = self._request(tx.mail.open, reference)
        if has_expired(request, tx.now):
            raise IllegalState(f"pairing request {request.name} has expired", "the user can ask again")
        if request.state is not PairState.OPEN:
            raise IllegalState(f"pairing request {request.name} was already {request.state}", "sm pair list")
        return request


def _named(open: Open, user: str) -> Pairing | None:
    """The pairing of the user; `user` may be the number alone, if only one network has it."""
    found = [p for p in open.pairings.values() if user in (p.user, p.user.partition(":")[2])]
    return found[0] if len(found) == 1 else None


def _require_paired(tx: Transaction, user: str) -> Pairing:
    pairing = tx.pairings.find(user)
    if pairing is None:
        raise IllegalState(f"user {user} was revoked since", "sm pair list")
    return pairing


def _level(trust: str | None) -> BridgeLevel:
    try:
        level = TrustLevel.SANDBOXED if trust is None else normalize_trust_level(trust)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return BridgeLevel.DIRECT if level is TrustLevel.DIRECT else BridgeLevel.SANDBOXED
