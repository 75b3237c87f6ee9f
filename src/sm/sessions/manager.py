"""Authorizes callers for the use cases of sessions, and records the reports of the outbox and the process watcher."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sm.config import Config
from sm.core.labels import short_label
from sm.core.messages import SM_ITSELF, Notice
from sm.core.models import BridgeUser, Caller, Exit, PermissionMode, Process, Session, Signal
from sm.core.reference import session_word
from sm.core.session_index import oldest_first
from sm.core.states import CallerKind, EventType, NoticeKind
from sm.core.tree_totals import Price
from sm.core.wording import subject
from sm.errors import InternalError, NotFound, NotPermitted, SmError
from sm.operations.hints import Hint, Use
from sm.operations.kernel_names import SEE_SESSIONS
from sm.operations.message_operations import SEND
from sm.operations.report_operations import COMPLETE, NOTE
from sm.operations.request_operations import ASK
from sm.operations.session_operations import SHOW_STATUS
from sm.policy.access import Action, Principal, Relation, may, may_at_all, visible
from sm.policy.retries import RetryLimits
from sm.providers.base import Provider
from sm.sessions.tree import SessionTree, relation_in_tree
from sm.state.endings import Endings
from sm.state.faults import Faults
from sm.state.loss_causes import LossCause
from sm.state.notices import Notices, withdraw
from sm.state.quota import Quota
from sm.state.session_steps import is_process_of, move
from sm.state.unread_transcripts import record_unread
from sm.store import Effect, Store
from sm.store.audit import ALLOWED, REFUSED, Record
from sm.store.history import below, seen_by
from sm.store.sums import RemovedSums

_HINT_FOR_ITSELF: Mapping[Action, str] = {
    Action.SEND: Hint("to remember something: ", Use(NOTE, "TEXT")),
    Action.KILL: Hint("to end your work: ", Use(COMPLETE, "RESULT")),
    Action.READ: Hint("to see your own progress: ", Use(SHOW_STATUS, "me")),
    Action.ANSWER: "your parent or the operator answers them",
}
"""Actions that a session may not do to itself, each with what it does instead."""
_TO_OPERATOR = Hint(Use(SEND, "operator", "TEXT"), "; to ask the operator: ", Use(ASK, "QUESTION"))


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A session after a use case, and warnings for the caller."""

    session: Session
    warnings: tuple[str, ...] = ()
    permission: PermissionMode | None = None
    """The permission mode in which a new process starts."""


class Manager:
    """Checks authenticated callers against `policy`, and records facts about sessions."""

    def __init__(
        self,
        config: Config,
        store: Store,
        providers: Mapping[str, Provider],
        audit: Record,
        now: Callable[[], str],
    ) -> None:
        self._store = store
        self._providers = providers
        self._audit = audit
        self.now = now
        self.naming = config.sessions.naming
        self.notices = Notices(config)
        self.endings = Endings(config, self.notices, providers)
        self.quota = Quota(config.limits)
        self._config = config
        self.faults = Faults(
            lambda: RetryLimits(config.retry.max, config.retry.backoff_s), self.notices, self._compaction
        )

    def _compaction(self, session: Session) -> str | None:
        command = self.provider(session).compact if self._config.on_context_full == "compact" else None
        return None if command is None else command.text

    # Authorization

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

    def find(self, caller: Caller, reference: str, action: Action = Action.SEE) -> Session:
        """The session that `reference` names, if `caller` may do `action` to it. Writes to the audit log.

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
                raise self._refused(unknown, caller, action, reference, "no such session for it") from None
        relation = self.tree.relation(principal, target)
        related = _related(relation)
        if not may(relation, action):
            itself = relation.is_self and action in _HINT_FOR_ITSELF
            refusal = NotPermitted(
                f"{describe(principal)} may not {action} {'itself' if itself else f'session {short_label(target)}'}",
                _HINT_FOR_ITSELF[action] if itself else _ask_hint(caller),
            )
            raise self._refused(refusal, caller, action, target.id, related)
        if not _is_routine(relation, action):
            self._audit(caller.audit_name, action.name.lower(), target.id, ALLOWED, related)
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
        action: Action,
        sessions: Sequence[Session],
        find: Callable[[str], Session | None],
    ) -> list[Session]:
        """Filter `sessions` to those that `caller` may do `action` to. `find`: `Transaction.find`, or as committed.

        Safe inside a transaction, because this does not write. Call `record_allowed` after the commit.
        """
        principal = self.principal(caller)
        return [s for s in sessions if may(relation_in_tree(principal, s, find), action)]

    def may_read(self, caller: Caller, session: Session) -> bool:
        """True when the caller may read the contents of a visible session. A session may read its own."""
        relation = self.tree.relation(self.principal(caller), session)
        return relation.is_self or may(relation, Action.READ)

    def record_allowed(self, caller: Caller, action: Action, sessions: Sequence[Session]) -> None:
        """Write the sessions that `filter_allowed` returned to the audit log."""
        for session in sessions:
            self._audit(caller.audit_name, action.name.lower(), session.id, ALLOWED, "with the tree above it")

    def require(
        self,
        caller: Caller,
        action: Action,
        target: str | None = None,
        detail: str | None = None,
        *,
        is_read: bool = False,
    ) -> None:
        """Raise NotPermitted unless `caller` may do `action`, which concerns no session.

        `target` and `detail` go to the audit log. `is_read`: it changes nothing, and only a refusal is recorded.
        """
        if not may_at_all(caller, action):
            refusal = NotPermitted(f"only the operator may {action}", _ask_hint(caller))
            raise self._refused(refusal, caller, action, target, detail)
        if not is_read:
            self._audit(caller.audit_name, action.name.lower(), target, ALLOWED, detail)

    def _refused(
        self, error: SmError, caller: Caller, action: Action, target: str | None, reason: str | None
    ) -> SmError:
        self._audit(caller.audit_name, action.name.lower(), target, REFUSED, reason)
        error.recorded = True
        return error

    def provider(self, session: Session) -> Provider:
        return self._providers[session.provider]

    def price(self, session: Session | RemovedSums) -> Price:
        """The price of the usage of a session. Unknown for an agent CLI that this version of sm does not know."""
        provider = self._providers.get(session.provider)
        return (lambda usages: None) if provider is None else provider.cost_usd

    @property
    def prices_as_of(self) -> str | None:
        """The date of the oldest list prices, or None if no provider has prices."""
        return min((p.prices_as_of for p in self._providers.values() if p.prices_as_of), default=None)

    # Reports of the outbox

    async def mark_taken(self, effect: Effect) -> None:
        """Mark the effect as started. A crash from here on makes it a dead letter, because effects run once."""
        async with self._store.transaction() as tx:
            await tx.take(effect)

    async def mark_finished(self, effect: Effect, *, dead: str | None = None) -> None:
        """Mark the effect as done, or as failed for the reason `dead`, which becomes an event of the session."""
        async with self._store.transaction() as tx:
            await tx.finish(effect, dead=dead)
            session = tx.find(effect.session_id)
            if dead and session is not None:
                await tx.event(EventType.WARNING, session, tx.now, f"{subject(session)} - {dead}", {})

    # Reports of the process watcher

    def has_process(self, session_id: str, process: Process | None) -> bool:
        session = self._store.sessions.get(session_id)
        return session is not None and is_process_of(session, process, self._store.mail.open)

    async def process_ended(
        self,
        session_id: str,
        process: Process | None,
        exit: Exit,
        screen: Sequence[str] = (),
        reason: str | None = None,
        unread: str | None = None,
    ) -> None:
        """Record how and, if known, for which reason a process of the session ended.

        `screen` is the last content of the terminal. `unread`: why the last lines of its transcript are unread.

        Ignores a process that is not the session's own (`has_process`): its end is recorded already, or the session
        was restored since.
        """
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            if is_process_of(session, process, tx.mail.open):
                record_unread(tx, session_id, unread)
                await self.endings.process_ended(tx, session, exit, screen, reason)

    async def terminal_lost(
        self,
        session_id: str,
        process: Process | None,
        cause: LossCause,
        reason: str,
        *,
        process_gone: bool,
        exit: Exit | None = None,
        unread: str | None = None,
    ) -> None:
        """Record that the terminal is gone. Ignores other processes, as `process_ended`.

        `exit`: how a process ended that is gone, if that is known. `unread`: as in `process_ended`.
        """
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            if is_process_of(session, process, tx.mail.open):
                ended = (exit or Exit()) if process_gone else None
                if process_gone:
                    record_unread(tx, session_id, unread)
                await self.endings.terminal_lost(tx, session, cause, reason, ended)

    # Notices whose content the caller already knows

    async def acknowledge_endings(self, caller: Caller, session_ids: Collection[str]) -> None:
        """Close the caller's notices about the end of these sessions."""
        await self.acknowledge(caller, session_ids, lambda n: n.kind is NoticeKind.ENDING)

    async def acknowledge(
        self, caller: Caller, session_ids: Collection[str], is_known: Callable[[Notice], bool]
    ) -> None:
        """Close the caller's notices about these sessions whose content the caller knows from an answer."""

        def is_void(notice: Notice) -> bool:
            return notice.recipient == caller.mailbox and is_known(notice)

        mail = self._store.mail
        pending = [n for n in mail.open.notices.values() if n.session_id in session_ids and is_void(n)]
        queued = mail.queued().get(caller.mailbox, ())
        if pending or any(message.sender == SM_ITSELF for message in queued):
            async with self._store.transaction() as tx:
                for session_id in session_ids:
                    await withdraw(tx, session_id, is_void, "heard")

    async def observe(self, session_id: str, signal: Signal) -> None:
        async with self._store.transaction() as tx:
            await move(tx, self.notices, session_id, signal)


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


def _is_routine(relation: Relation, action: Action) -> bool:
    """True for actions that the audit log omits: a session's actions on itself, and actions that callers poll."""
    polled = action is Action.SEE or (relation.is_operator and action is Action.READ)
    return polled or relation.is_self
