"""Restores and forks sessions: resumes a conversation in a new process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from weakref import WeakValueDictionary

from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_ended, is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Caller, Launch, RequestKey, Session, Signal, ancestors, digest
from sm.core.next_process import Restarts
from sm.core.states import RESTORE, CallerKind, EventType, MessageMode, SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.timestamps import later
from sm.core.wording import subject
from sm.errors import (
    IllegalState,
    NameTaken,
    NoServer,
    NotFound,
    NotPermitted,
    SmError,
    UsageError,
    WaitTimeout,
)
from sm.linux import processes
from sm.operations import session_operations as operations
from sm.operations.hints import Hint, Use
from sm.operations.list_operations import SEE_SESSIONS
from sm.operations.message_operations import SEND
from sm.operations.session_operations import KILL, RESUME, SPAWN
from sm.policy.trust import normalize_trust_level
from sm.providers.base import Provider
from sm.sandboxes.base import Sandbox
from sm.sessions.authorizer import Authorizer
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.resume_plan import ResumePlanner
from sm.sessions.spawn import as_payload
from sm.sessions.starts import AgentStarts
from sm.state.endings import Endings
from sm.state.losses import left_behind, lost_together, was_lost
from sm.state.message_steps import finish_unread, send
from sm.state.notices import Notices
from sm.state.part_holds import check_may_start
from sm.state.pause_orders import check_not_paused
from sm.state.quota import Quota
from sm.state.session_steps import move
from sm.store import Store, Transaction
from sm.terminals.base import Lifecycle, Pane

_OLD_S = 70 * 60.0
_LONG_TOKENS = 100_000
"""A conversation that is older and longer than this is resumed from a summary, where that is configured. claude asks at
the same limits."""
GO_ON = "Your process ended during your last turn, and was started again. Check how far you got, and go on."
"""The message to a restored agent whose turn was cut off."""

_GOES_ON = " goes on"
"""Ends the remembered result of a restart with that message."""
_KILLED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The restored sessions, and the ids of the others with their errors."""

    sessions: tuple[Session, ...]
    failed: tuple[tuple[str, SmError], ...] = ()
    continued: tuple[str, ...] = ()
    """The ids of the sessions that go on with a turn."""
    losses: tuple[tuple[str, str], ...] = ()
    """The ids of sessions whose conversation is not whole, with what is lost, as the end of a sentence."""
    left: tuple[str, ...] = ()
    """The ids of the descendants that ended by the same loss and were not restored."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """`goes_on`: the agent is told to go on with its turn. `left`: as in RestoreResult."""

    goes_on: bool
    loss: str | None = None
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Restorer:
    _store: Store
    _authorizer: Authorizer
    _notices: Notices
    _endings: Endings
    _quota: Quota
    _providers: Mapping[str, Provider]
    _starts: AgentStarts
    _planner: ResumePlanner
    _files: ConversationFiles
    _sandbox: Sandbox
    _terminals: Lifecycle
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    # Restoring

    async def restore(
        self,
        caller: Caller,
        reference: str,
        key: RequestKey | None,
        *,
        tree: bool,
        go_on: bool = False,
        trust: str | None = None,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> RestoreResult:
        """Start an ended session in a new process; return when the agent has accepted its conversation.

        Returns earlier with a session that still starts after `_ACCEPTED_WITHIN_S`, or that waits for a person. A
        program without conversations need only run.

        `tree`: also restore the ended descendants that are not archived, parents before children, even if the
        session itself is live. The named session is unarchived. `go_on`: tell an agent whose turn was cut off to go
        on. `trust`: `direct` lets the named session, which fell back, run on this host from now on. Raises
        IllegalState when there is nothing to restore, NameTaken, InvalidPath, AgentStartFailed when the agent has
        ended at its start, FallbackOver when there is a sandbox for a session that fell back, and the errors of a
        spawn.
        """
        session = self._authorizer.find(caller, reference, operations.RESTORE.audience)
        if trust is not None:
            await self._give_up_sandbox(caller, session, trust)
        if not tree:
            panes = await self._panes()
            begun = await self._begin_restart(caller, session.id, key, panes, go_on=go_on, is_alone=True)
            restored = await self._starts.wait_for_agent(caller, session.id, is_connected)
            continued = (session.id,) if begun.goes_on else ()
            losses = () if begun.loss is None else ((session.id, begun.loss),)
            return RestoreResult((restored,), continued=continued, losses=losses, left=begun.left)

        async def ended(tx: Transaction) -> list[Session]:
            below = await tx.descendants(session.id)
            descendants = [s for s in below if _is_over(s) and not s.archived]
            descendants = self._authorizer.filter_allowed(
                caller, operations.RESTORE.audience, descendants, tx.find
            )
            now = tx.session(session.id)
            if not _is_over(now) and not descendants:
                _refuse(now)
            return [now, *descendants] if _is_over(now) else descendants

        return await self._restore_each(caller, key, ended, is_connected, go_on=go_on)

    async def _give_up_sandbox(self, caller: Caller, session: Session, trust: str) -> None:
        """Record that a session which fell back runs directly from now on, because the operator asks for that."""
        try:
            level = normalize_trust_level(trust)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if level is session.effective_mode and not session.fell_back:
            return
        if level is not TrustLevel.DIRECT or not session.fell_back:
            raise UsageError(
                f"session {short_label(session)} runs {session.effective_mode}: a restore does not move it",
                Hint("start another one: ", Use(SPAWN, session.agent_type, "--trust", level)),
            )
        if caller.kind is not CallerKind.OPERATOR:
            raise NotPermitted(
                f"only the operator may let session {short_label(session)} run without a sandbox"
            )
        _check(session)
        async with self._store.transaction() as tx:
            after = await tx.update(tx.session(session.id), trust_level=TrustLevel.DIRECT)
            words = f"{subject(after)} - runs directly on this host from now on, as {caller} asked"
            await tx.event(EventType.WARNING, after, tx.now, words, {})

    async def restore_all(
        self,
        caller: Caller,
        key: RequestKey | None,
        *,
        go_on: bool = False,
        is_connected: Callable[[], bool] = lambda: True,
    ) -> RestoreResult:
        """Restore every session that ended with the machine, the tmux server, the engine or a container, parents first.

        Archived sessions stay ended, and so does a session whose terminal was closed, probably on purpose. `go_on`: as
        in `restore`.
        """
        self._authorizer.require(caller, operations.RESTORE_ALL.audience)

        async def lost(tx: Transaction) -> list[Session]:
            sessions = [s for s in await lost_together(tx) if is_restored_by_all(s)]
            return sorted(sessions, key=lambda s: len(list(ancestors(s, tx.find))))

        return await self._restore_each(caller, key, lost, is_connected, go_on=go_on)

    async def _restore_each(
        self,
        caller: Caller,
        key: RequestKey | None,
        chosen: Callable[[Transaction], Awaitable[Sequence[Session]]],
        is_connected: Callable[[], bool],
        *,
        go_on: bool,
    ) -> RestoreResult:
        """Begin one restore after the other, so that a parent exists before its children; then wait for all."""
        async with self._store.transaction(caller, key) as tx:
            # Remember the ids: a repeated request must not skip sessions that the first one has restored.
            if tx.replayed is None:
                wanted = [session.id for session in await chosen(tx)]
                tx.remember(" ".join(wanted))
            else:
                wanted = tx.replayed.split()
        panes = await self._panes() if wanted else {}
        begun: dict[str, _Begun] = {}
        failed: dict[str, SmError] = {}
        for session_id in wanted:
            part = None if key is None else RequestKey(f"{key.text}/{session_id}", key.fingerprint)
            try:
                begun[session_id] = await self._begin_restart(caller, session_id, part, panes, go_on=go_on)
            except SmError as error:
                failed[session_id] = error

        async def started(session_id: str) -> Session | None:
            try:
                return await self._starts.wait_for_agent(caller, session_id, is_connected)
            except SmError as error:
                failed[session_id] = error
                return None

        await self._report_failures(caller, {s: failed[s].message for s in wanted if s in failed})
        running = await asyncio.gather(*map(started, begun))
        return RestoreResult(
            tuple(session for session in running if session is not None),
            tuple((s, failed[s]) for s in wanted if s in failed),
            tuple(s for s, each in begun.items() if each.goes_on and s not in failed),
            tuple((s, each.loss) for s, each in begun.items() if each.loss is not None and s not in failed),
        )

    async def _report_failures(self, caller: Caller, failed: Mapping[str, str]) -> None:
        """Tell the parents of the sessions that could not be restored, which did not hear of their ends."""
        if not failed:
            return
        async with self._store.transaction() as tx:
            for session_id, why in failed.items():
                session = tx.find(session_id)
                if session is not None and _is_over(session):
                    await self._notices.add_for_restored(tx, session, caller.name, why)

    async def _begin_restart(
        self,
        caller: Caller,
        session_id: str,
        key: RequestKey | None,
        panes: Mapping[str, Pane],
        *,
        go_on: bool,
        is_alone: bool = False,
    ) -> _Begun:
        """Commit the restart, once for each `key`; the outbox starts the process.

        Until everything is checked, nothing is written. `is_alone`: its descendants are not restored with it.
        """
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                return _Begun(tx.replayed.endswith(_GOES_ON))
        if (starter := self._authorizer.caller_session(caller)) is not None:
            check_not_paused(starter)
        session = self._store.sessions.get(session_id)
        if session is None:
            raise NotFound(f"no such session: {session_id}", SEE_SESSIONS)
        _check(session)
        await self._wait_for_kill(session)
        pane = panes.get(session_id)
        refuse_foreign_process(session, pane)
        plan = await self._planner.restore(session)
        summary = await self._summary_command(session)
        launch, token, recovery = plan.launch, plan.token, plan.recovery
        # The second of two concurrent restores must not overwrite the token of the first.
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            async with self._store.transaction(caller, key) as tx:
                if tx.replayed is not None:
                    return _Begun(tx.replayed.endswith(_GOES_ON))
                self._check_restorable(tx, caller, session_id)
            await self._files.give_back(session, recovery)
            # Writing the token file before the commit is safe: the process with the old token is gone.
            await self._sandbox.prepare(session, launch, token)
            async with self._store.transaction(caller, key) as tx:
                now = self._check_restorable(tx, caller, session_id)
                # A prompt that is sent again needs no word to go on.
                is_begun = not launch.has_prompt and plan.first_message is None
                goes_on = go_on and is_begun and await self._was_cut_off(tx, now)
                losses = () if recovery.loss is None else (recovery.loss,)
                left = await left_behind(tx, now) if is_alone else []
                await self._restart(tx, now, caller, digest(token), (*plan.warnings, *losses))
                for other in left:
                    await self._notices.add_for_left(tx, other)
                await _order_start(tx, now, pane)
                summarizes = summary if is_begun else None
                _send_first(tx, caller, session_id, plan.first_message, summarizes, goes_on=goes_on)
                tx.remember(session_id + (_GOES_ON if goes_on else ""))
                named = self._authorizer.filter_allowed(caller, operations.RESTORE.audience, left, tx.find)
                return _Begun(goes_on, recovery.loss, tuple(other.id for other in named))

    async def _summary_command(self, session: Session) -> str | None:
        """The command that replaces a long and old conversation by a summary, if the operator wants that."""
        provider = self._providers[session.provider]
        if provider.compact is None or not provider.summarizes_at_resume:
            return None
        tokens = (await self._store.measures.facts(session.id)).get("context_tokens") or 0
        ended_at = session.turn_ended_at or session.started_at or session.created_at
        is_old = later(ended_at, _OLD_S) <= self._store.now()
        return provider.compact.text if is_old and tokens >= _LONG_TOKENS else None

    async def _was_cut_off(self, tx: Transaction, session: Session) -> bool:
        """True if the agent had a turn when its process ended."""
        if session.status is Status.COMPLETED or not self._providers[session.provider].has_turns:
            return False
        return await tx.status_before_end(session.id) in (Status.RUNNING, Status.WAITING_INPUT)

    def _check_restorable(self, tx: Transaction, caller: Caller, session_id: str) -> Session:
        """The session, if it may start again. Raises IllegalState, NameTaken, LimitReached."""
        session = tx.session(session_id)
        _check(session)
        if tx.has_open(EffectKind.KILL, session_id):  # the kill would end the new process too
            raise IllegalState(f"session {short_label(session)} is being killed", "try again in a moment")
        others = (s for s in tx.unfinished_sessions() if s.id != session_id and is_live(s.status))
        name = session.friendly_name
        if name is not None and any(s.friendly_name == name for s in others):
            raise NameTaken(f"name {name} is already used by a live session", Hint(Use(KILL, name)))
        check_may_start(tx, session)
        self._quota.check_restore(tx, caller, session)
        return session

    async def _restart(
        self, tx: Transaction, session: Session, caller: Caller, token_hash: str, warnings: Sequence[str]
    ) -> None:
        after = await move(
            tx,
            self._notices,
            session.id,
            Signal(SignalKind.RESTARTED, RESTORE, f"restored by {caller}", tx.now),
            process=None,
            exit=None,
            started_at=None,
            token_hash=token_hash,
            archived=False,
            restarts=None if session.restarts is None else Restarts(session.restarts.max),
        )
        after = await self._endings.rejoin(tx, after)
        await self._notices.add_for_restored(tx, after, caller.name)
        # Messages of an earlier version of sm, which left them submitted at the end of the process.
        own = await finish_unread(tx, self._notices, after, f"session {short_label(after)} was restored")
        await tx.mail.reopen_notices(own, after.id)
        if session.archived:
            line = f"{subject(after)} unarchived"
            await tx.event(EventType.ARCHIVED, after, tx.now, line, {"archived": False})
        for warning in warnings:
            await tx.event(EventType.WARNING, after, tx.now, f"{subject(after)} - {warning}", {})

    async def restored_launch(self, session_id: str) -> Launch:
        """The launch of a restored session, for the outbox. Raises the errors of `restore`."""
        session = self._store.sessions[session_id]
        plan = await self._planner.restore(session, is_decided=True)
        await self._files.give_back(session, plan.recovery)
        if plan.program_version != session.program_version:
            async with self._store.transaction() as tx:
                await tx.update(tx.session(session_id), program_version=plan.program_version)
        return plan.launch

    async def _panes(self) -> Mapping[str, Pane]:
        try:
            return await self._terminals.snapshot()
        except NoServer:
            return {}

    async def _wait_for_kill(self, session: Session) -> None:
        """Wait for the end of a kill: the outbox finishes it shortly after the end of the process is recorded."""

        def killed() -> bool:
            effects = self._store.mail.open.effects.values()
            return not any(e.kind == EffectKind.KILL and e.session_id == session.id for e in effects)

        if not await self._store.wait_until(killed, _KILLED_WITHIN_S):
            raise WaitTimeout(
                f"session {short_label(session)} is still being killed", "try again in a moment"
            )


def is_restored_by_all(session: Session) -> bool:
    """True for a session that `sm restore --all` starts again."""
    return was_lost(session) and _is_over(session) and not session.archived


def _is_over(session: Session) -> bool:
    return is_ended(session.status) and session.exit is not None


def _check(session: Session) -> None:
    if not _is_over(session):
        _refuse(session)


def _refuse(session: Session) -> None:
    if is_ended(session.status):
        name = name_to_type(session)
        raise IllegalState(
            f"session {short_label(session)} has ended ({session.status}), but its process still runs",
            Hint("send more work: ", Use(SEND, name, "TEXT"), "; or end the process: ", Use(KILL, name)),
        )
    raise IllegalState(
        f"session {short_label(session)} is {session.status}: only ended sessions can be restored",
        f"sm attach {name_to_type(session)}"
        if session.paused is None
        else Hint(Use(RESUME, name_to_type(session))),
    )


def refuse_foreign_process(session: Session, pane: Pane | None) -> None:
    """Refuse a restore while another program runs in the terminal: a person may have started it (tmux respawn-pane)."""
    if pane is None or pane.dead or pane.foreign or processes.identify(pane.pid) is None:
        return
    raise IllegalState(
        f"process {pane.pid} in the terminal of session {short_label(session)} is not its agent",
        f"end the process: sm attach {name_to_type(session)}",
    )


async def _order_start(tx: Transaction, session: Session, pane: Pane | None) -> None:
    """Order the start of the next process.

    The outbox closes the old terminal first. Its process identifies the terminal, because a start repeated after a
    crash finds the new terminal, possibly dead, under the same id.
    """
    payload = {
        "again": True,
        "pane_pid": None if pane is None else pane.pid,
        "process": None if session.process is None else as_payload(session.process),
        "began": session.started_at,
    }
    await tx.effect(EffectKind.START, session.id, payload, tx.now)


def _send_first(
    tx: Transaction,
    caller: Caller,
    session_id: str,
    first_message: str | None,
    summary: str | None,
    *,
    goes_on: bool,
) -> None:
    """Send what a new process is told: to summarize its conversation, then its prompt or to go on."""
    if summary is not None:
        send(tx, session_id, SM_ITSELF, summary, MessageMode.COMMAND)
    if first_message is not None:
        send(tx, session_id, caller.name, first_message)
    elif goes_on:
        mode = MessageMode.AUTO if summary is None else MessageMode.IDLE
        send(tx, session_id, caller.name, GO_ON, mode)
