"""Use cases of pairing: unknown users ask for it, and the operator and owners pair and revoke them."""

import re
from collections.abc import Mapping
from dataclasses import replace

from sm.capabilities.pairing.model import Pairing, PairRequest, PairState
from sm.capabilities.pairing.operations import APPROVE, DENY, LIST, REVOKE
from sm.capabilities.pairing.repeated_requests import (
    EXPIRES_S,
    PairDecision,
    decide_request,
    has_expired,
    open_requests,
)
from sm.capabilities.pairing.tables import PART, PairingRows
from sm.capabilities.pairing.words import owner_question, stranger_reply
from sm.core.models import BridgeUser, RequestKey
from sm.core.states import BridgeLevel, TrustLevel
from sm.core.text import folded
from sm.errors import IllegalState, NotFound, UsageError
from sm.kernel import OperationCall
from sm.operations.hints import Hint, Use
from sm.policy.trust import normalize_trust_level
from sm.sessions.authorizer import Authorizer
from sm.sessions.chat_users import Admission, AdmissionReply, ChatUsers, OwnerQuestion
from sm.sessions.workdir import no_such_workspace
from sm.store import Open, Store, Transaction
from sm.store.audit import ALLOWED, Record
from sm.wire_types.pairings import PairingView, PairOverviewView, PairRequestView, RevokedUserView

_ASK = "ask_to_pair"
_LABEL_MAX = 80
_NAME = re.compile(r"p?([1-9][0-9]{0,17})")


class Pairings(Admission):
    """Pairs users of chat networks with this instance, and revokes them."""

    def __init__(self, store: Store, authorizer: Authorizer, users: ChatUsers, audit: Record) -> None:
        self._store = store
        self._authorizer = authorizer
        self._users = users
        self._audit = audit

    def users(self, open: Open) -> Mapping[str, BridgeUser]:
        return {name: pairing.bridge_user for name, pairing in PART.rows_of(open).pairings.items()}

    # Requests of unknown users

    async def ask(self, user: str, label: str, key: RequestKey | None) -> AdmissionReply | None:
        """Request that the operator pairs `user`."""
        async with self._store.transaction(None, key) as tx:
            if tx.replayed is not None:
                decision, _, name = tx.replayed.partition(" ")
                return _reply(PairDecision[decision], self._request(tx.part(PART).rows, name))
            decided, request = self._decide(tx, user, label)
            if request is not None:
                tx.remember(f"{decided.name} {request.name}")
        if request is None:
            return None
        self._audit(user, _ASK, request.name, ALLOWED, decided)
        return _reply(decided, request)

    def _decide(self, tx: Transaction, user: str, label: str) -> tuple[PairDecision, PairRequest | None]:
        part = tx.part(PART)
        for old in list(part.rows.requests.values()):
            if has_expired(old, tx.now):
                part.remove_request(old)
        requests = part.rows.requests.values()
        decision = decide_request(user, requests, tx.now)
        request: PairRequest | None = None
        if decision is PairDecision.OPEN:
            name = folded(label, _LABEL_MAX)
            request = PairRequest(part.new_id(), user, name, PairState.OPEN, tx.now, tx.now)
        elif decision is PairDecision.REPEAT:
            (known,) = (r for r in requests if r.user == user and r.state is PairState.OPEN)
            request = replace(known, replied_at=tx.now)
        if request is not None:
            part.put_request(request)
        return decision, request

    # Decisions of the operator and of owners

    async def overview(self, call: OperationCall) -> PairOverviewView:
        """The open requests and the paired users. Raises NotPermitted."""
        self._authorizer.require(call.caller, LIST.audience, is_read=True)
        rows = self._store.part(PART).rows
        requests = open_requests(rows.requests.values(), self._store.now())
        return PairOverviewView(
            [_request_view(request) for request in requests],
            [_pairing_view(pairing) for pairing in rows.pairings.values()],
        )

    async def approve(self, call: OperationCall) -> PairingView:
        """Pair the user of a request. Earlier sessions of a paired user stay with that user.

        Raises NotPermitted, NotFound, UsageError, IllegalState for a request that is no longer open.
        """
        caller, reference, wanted = call.caller, call.target, call.arguments
        self._authorizer.require(caller, APPROVE.audience, reference, "approve", is_read=True)
        level, workspace = _level(wanted.trust), wanted.workspace
        where = "" if workspace is None else f" in workspace {workspace}"
        known = self._request(self._store.part(PART).rows, reference)
        self._authorizer.require(
            caller, APPROVE.audience, known.user, f"approve {known.name} as {level}{where}"
        )
        async with self._store.transaction(caller, call.key) as tx:
            if tx.replayed is not None:
                return _pairing_view(_require_paired(tx, tx.replayed))
            request = self._open_request(tx, reference)
            if workspace is not None:
                found = tx.workspace(workspace)
                if found is None or found.deleted_at is not None:
                    raise no_such_workspace(workspace, tx.all_workspaces())
            pairing = Pairing(request.user, request.label, level, workspace, tx.now, str(caller))
            tx.part(PART).put(pairing)
            tx.part(PART).put_request(replace(request, state=PairState.APPROVED))
            tx.remember(pairing.user)
        return _pairing_view(pairing)

    async def deny(self, call: OperationCall) -> PairRequestView:
        """Deny a request. Its user gets no reply until the request expires. Raises the errors of `approve`."""
        caller, reference = call.caller, call.target
        self._authorizer.require(caller, DENY.audience, reference, "deny", is_read=True)
        known = self._request(self._store.part(PART).rows, reference)
        self._authorizer.require(caller, DENY.audience, known.user, f"deny {known.name}")
        async with self._store.transaction(caller, call.key) as tx:
            if tx.replayed is not None:
                return _request_view(self._request(tx.part(PART).rows, tx.replayed))
            denied = replace(self._open_request(tx, reference), state=PairState.DENIED)
            tx.part(PART).put_request(denied)
            tx.remember(denied.name)
        return _request_view(denied)

    async def revoke(self, call: OperationCall) -> RevokedUserView:
        """End a pairing, and give the user's sessions to the operator. The sessions go on.

        The target may be the number alone, if only one network has it. Raises NotPermitted, NotFound.
        """
        caller, user = call.caller, call.target
        known = self._store.part(PART).rows.named(user)
        self._authorizer.require(caller, REVOKE.audience, user if known is None else known.user, "revoke")
        async with self._store.transaction(caller, call.key) as tx:
            if tx.replayed is not None:
                name, _, sessions = tx.replayed.partition(" ")
                return RevokedUserView(name, int(sessions))
            pairing = self._paired(tx, user)
            own = await tx.select("paired_user = ?", pairing.user)
            for session in own:
                await tx.update(session, paired_user=None)
            tx.part(PART).remove(pairing.user)
            tx.remember(f"{pairing.user} {len(own)}")
        return RevokedUserView(pairing.user, len(own))

    def _paired(self, tx: Transaction, user: str) -> Pairing:
        found = tx.part(PART).rows.named(user)
        if found is None:
            in_config = user in self._users.owners
            raise NotFound(
                f"user {folded(user, 80)} is not paired",
                "owners are in config.yaml" if in_config else Hint("list paired users: ", Use(LIST)),
            )
        return found

    def _request(self, rows: PairingRows, reference: str) -> PairRequest:
        name = _NAME.fullmatch(reference.lower())
        request = None if name is None else rows.requests.get(int(name[1]))
        if request is None:
            raise NotFound(
                f"no such pairing request: {folded(reference, 40)}", Hint("list requests: ", Use(LIST))
            )
        return request

    def _open_request(self, tx: Transaction, reference: str) -> PairRequest:
        request = self._request(tx.part(PART).rows, reference)
        if has_expired(request, tx.now):
            raise IllegalState(f"pairing request {request.name} has expired", "the user can ask again")
        if request.state is not PairState.OPEN:
            raise IllegalState(f"pairing request {request.name} was already {request.state}", Hint(Use(LIST)))
        return request


def _require_paired(tx: Transaction, user: str) -> Pairing:
    pairing = tx.part(PART).rows.pairings.get(user)
    if pairing is None:
        raise IllegalState(f"user {user} was revoked since", Hint(Use(LIST)))
    return pairing


def _level(trust: str | None) -> BridgeLevel:
    try:
        level = TrustLevel.SANDBOXED if trust is None else normalize_trust_level(trust)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return BridgeLevel.DIRECT if level is TrustLevel.DIRECT else BridgeLevel.SANDBOXED


def _reply(decision: PairDecision, request: PairRequest) -> AdmissionReply:
    question = None
    if decision is PairDecision.OPEN:
        question = OwnerQuestion(
            owner_question(request.label, request.user, request.name),
            f"{APPROVE.button} {request.name}",
            [("Approve", f"{APPROVE.button} {request.name}"), ("Deny", f"{DENY.button} {request.name}")],
            EXPIRES_S,
        )
    return AdmissionReply(stranger_reply(request.name), question)


def _request_view(request: PairRequest) -> PairRequestView:
    return PairRequestView(request.name, request.user, request.label, request.created_at, request.state)


def _pairing_view(pairing: Pairing) -> PairingView:
    return PairingView(
        pairing.user,
        pairing.label,
        pairing.level.value,
        pairing.workspace,
        pairing.created_at,
        pairing.created_by,
    )
