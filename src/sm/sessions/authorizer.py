"""Authorizes callers for the use cases of sessions, and writes the decisions to the audit log."""

from collections.abc import Callable, Mapping, Sequence

from sm.core.labels import short_label
from sm.core.models import BridgeUser, Caller, Session
from sm.core.reference import session_word
from sm.core.session_index import oldest_first
from sm.core.states import CallerKind
from sm.errors import InternalError, NotFound, NotPermitted, SmError
from sm.operations.access_rules import READ, READ_ALSO_ITSELF, SEE, Audience
from sm.operations.hints import Hint, Use
from sm.operations.list_operations import SEE_SESSIONS
from sm.operations.message_operations import SEND
from sm.operations.report_operations import COMPLETE, NOTE
from sm.operations.request_operations import ANSWER, ASK
from sm.operations.session_operations import KILL, SHOW_STATUS
from sm.policy.relations import Principal, Relation, may, may_at_all, visible
from sm.sessions.tree import SessionTree, relation_in_tree
from sm.store import Store
from sm.store.audit import ALLOWED, REFUSED, Record
from sm.store.history import below, seen_by

_HINT_FOR_ITSELF: Mapping[Audience, str] = {
    SEND.audience: Hint("to remember something: ", Use(NOTE, "TEXT")),
    KILL.audience: Hint("to end your work: ", Use(COMPLETE, "RESULT")),
    READ: Hint("to see your own progress: ", Use(SHOW_STATUS, "me")),
    ANSWER.audience: "your parent or the operator answers them",
}
"""Actions that a session may not do to itself, each with what it does instead."""
_TO_OPERATOR = Hint(Use(SEND, "operator", "TEXT"), "; to ask the operator: ", Use(ASK, "QUESTION"))


class Authorizer:
    """Finds sessions for authenticated callers, and checks their actions against `policy`."""

    def __init__(self, store: Store, audit: Record) -> None:
        self._store = store
        self._audit = audit

    @property
    def tree(self) -> SessionTree:
        return SessionTree(self._store.sessions, self._store.index)

    def principal(self, caller: Caller) -> Principal:
        """The caller as `policy` sees it. Raises NotPermitted for a removed session."""
        if caller.kind is CallerKind.OPERATOR:
            return None
        principal = caller.user or self.caller_session(caller)
        if principal is None:
            raise InternalError(f"a caller of kind {caller.kind} names nobody")
        return principal

    def caller_session(self, caller: Caller) -> Session | None:
        """The calling session; None for a caller of another kind. Raises NotPermitted for a removed session.

        Never decide by it whether the caller is the operator: `principal` does.
        """
        if caller.session_id is None:
            return None
        session = self._store.sessions.get(caller.session_id)
        if session is None:
            raise NotPermitted(
                f"the calling session {caller.session_id} is unknown to this daemon", "unset SM_SESSION_ID"
            )
        return session

    def find(self, caller: Caller, reference: str, audience: Audience = SEE) -> Session:
        """The session that `reference` names, if `caller` is in the audience for it. Writes to the audit log.

        Raises NotPermitted, and NotFound also for a session that the caller may not see.
        """
        principal = self.principal(caller)
        word = session_word(reference)
        if word == "me":
            if not isinstance(principal, Session):
                raise NotFound(
                    f"`me` means the calling session, but you are {describe(principal)}",
                    SEE_SESSIONS,
                )
            target = principal
        elif word == "parent" and isinstance(principal, Session):
            target = self._parent_of(principal)
        else:
            try:
                target = self.tree.find(principal, reference)
            except NotFound as error:
                if principal is None:
                    raise
                unknown = error
                if word == CallerKind.OPERATOR:
                    unknown = NotFound("the operator is no session", _TO_OPERATOR)
                raise self._refused(unknown, caller, audience, reference, "no such session for it") from None
        relation = self.tree.relation(principal, target)
        related = _related(relation)
        if not may(relation, audience):
            itself = relation.is_self and audience in _HINT_FOR_ITSELF
            whom = "itself" if itself else f"session {short_label(target)}"
            refusal = NotPermitted(
                f"{describe(principal)} may not {audience.action} {whom}",
                _HINT_FOR_ITSELF[audience] if itself else _ask_hint(caller),
            )
            raise self._refused(refusal, caller, audience, target.id, related)
        if not _is_routine(relation, audience):
            self._audit(caller.audit_name, audience.name, target.id, ALLOWED, related)
        return target

    def _parent_of(self, session: Session) -> Session:
        """The session that `parent` means for this one. Raises NotFound."""
        parent = None if session.parent_id is None else self._store.sessions.get(session.parent_id)
        if parent is None:
            raise NotFound("you have no parent: the operator started you", _TO_OPERATOR)
        return parent

    async def subtree(
        self, caller: Caller, reference: str | None, *, descendants: bool, since: str = ""
    ) -> list[Session]:
        """The named session, with `descendants` also those below it; all visible sessions without a name.

        Archived ones are included. `since`: without those that ended before, if no session is named. Raises NotFound.
        """
        if reference is None:
            principal = self.principal(caller)
            past = await self._store.history.all(seen_by(principal).also("status_at >= ?", since))
            return [*past, *(s for s in self._store.sessions.values() if visible(principal, s))]
        session = self.find(caller, reference)
        return [session, *(await self.descendants(caller, session.id) if descendants else ())]

    async def descendants(self, caller: Caller, session_id: str) -> list[Session]:
        """The visible descendants, nearest first."""
        principal, kept = self.principal(caller), list(self.tree.descendants(session_id))
        past = await self._store.history.all(below([session_id]))
        members = sorted([*kept, *past], key=oldest_first) if past else kept
        tree = SessionTree({s.id: s for s in members})
        return [s for s in tree.descendants(session_id) if visible(principal, s)]

    def filter_allowed(
        self,
        caller: Caller,
        audience: Audience,
        sessions: Sequence[Session],
        find: Callable[[str], Session | None],
    ) -> list[Session]:
        """Filter `sessions` to those for which `caller` is in the audience.

        `find`: `Transaction.find`, or as committed. Safe inside a transaction, because this does not write. Call
        `record_allowed` after the commit.
        """
        principal = self.principal(caller)
        return [s for s in sessions if may(relation_in_tree(principal, s, find), audience)]

    def may_read(self, caller: Caller, session: Session) -> bool:
        """True when the caller may read the contents of a visible session. A session may read its own."""
        return may(self.tree.relation(self.principal(caller), session), READ_ALSO_ITSELF)

    def record_allowed(self, caller: Caller, audience: Audience, sessions: Sequence[Session]) -> None:
        """Write the sessions that `filter_allowed` returned to the audit log."""
        for session in sessions:
            self._audit(caller.audit_name, audience.name, session.id, ALLOWED, "with the tree above it")

    def require(
        self,
        caller: Caller,
        audience: Audience,
        target: str | None = None,
        detail: str | None = None,
        *,
        is_read: bool = False,
    ) -> None:
        """Raise NotPermitted unless `caller` is in the audience of something that concerns no session.

        `target` and `detail` go to the audit log. `is_read`: it changes nothing, and only a refusal is recorded.
        """
        if not may_at_all(caller, audience):
            refusal = NotPermitted(f"only the operator may {audience.action}", _ask_hint(caller))
            raise self._refused(refusal, caller, audience, target, detail)
        if not is_read:
            self._audit(caller.audit_name, audience.name, target, ALLOWED, detail)

    def _refused(
        self, error: SmError, caller: Caller, audience: Audience, target: str | None, reason: str | None
    ) -> SmError:
        self._audit(caller.audit_name, audience.name, target, REFUSED, reason)
        error.recorded = True
        return error


def describe(principal: Principal) -> str:
    """The caller in an error: `the operator`, `session engineer-login`, `user telegram:4711`."""
    if principal is None:
        return "the operator"
    if isinstance(principal, BridgeUser):
        return f"user {principal.name}"
    return f"session {short_label(principal)}"


def _related(relation: Relation) -> str | None:
    """The relation for the audit log; None for the operator."""
    if relation.is_operator:
        return None
    return "owner" if relation.is_owner else f"to it: {relation.position}"


def _ask_hint(caller: Caller) -> str | None:
    return None if caller.session_id is None else Hint("ask for permission: ", Use(ASK, "QUESTION"))


def _is_routine(relation: Relation, audience: Audience) -> bool:
    """True for actions that the audit log omits: a session's actions on itself, and actions that callers poll."""
    polled = audience is SEE or (relation.is_operator and audience is READ)
    return polled or relation.is_self
