"""Carries out committed effects: starts, kills, typed prompts, notifications.

Almost every effect is idempotent and may be repeated after a crash: a start finds the terminal that carries its
session's id, a kill finds the process gone. An effect that cannot be repeated (typing, running the operator's program)
is marked as taken before it runs. A taken effect that a crash interrupted becomes a dead letter.

Calls to Telegram are rows of the outbox too. `telegram.sender` carries them out, because their order follows the need.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sm.api.agent_sockets import AgentSockets
from sm.config import Cleanup
from sm.core.backoff import Backoff
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.models import Launch, Process, Session
from sm.core.states import EventType, TrustLevel
from sm.core.text import escape_marks
from sm.core.timestamps import epoch_s
from sm.core.wording import subject
from sm.daemon.interrupt_effects import InterruptEffects
from sm.errors import (
    ExternalError,
    IllegalState,
    InternalError,
    NoServer,
    NoTerminal,
    ProgramMissing,
    SandboxUnavailable,
    SmError,
    StorageFull,
    TerminalUnreachable,
    UsageError,
)
from sm.kernel import EffectHandler
from sm.linux.processes import is_alive
from sm.messaging import LimitDialogs
from sm.monitor import Watcher
from sm.notifiers.base import Notifier, NotifyFailed
from sm.sandboxes.base import Sandbox
from sm.sessions.end_inspection import EndInspection
from sm.sessions.home_files import HomeFiles
from sm.sessions.keepers import SessionKeeper
from sm.sessions.manager import Manager
from sm.sessions.restore import Restorer
from sm.sessions.spawn import Spawner, process_of
from sm.state.loss_causes import LossCause
from sm.state.part_holds import postponed
from sm.store import Effect, Store, durable
from sm.terminals.base import ForeignPane, Pane, Terminals

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_NOTIFY_PAUSE_S = 1.0
_LONGEST_NOTIFY_PAUSE_S = 300.0
_ERASE_PAUSE_S = 1.0
_LONGEST_ERASE_PAUSE_S = 300.0
_NOTIFY_FOR_S = 24 * 3600.0
_QUEUE_MAX = 1_000
_EVENTS_LOOKED_AT = 50
_ON_TERMINALS = frozenset({EffectKind.ARCHIVE, EffectKind.CLOSE, EffectKind.RELEASE, EffectKind.REMOVE})


def queue_of(effect: Effect) -> str:
    """The queue of an effect. Effects of one queue run one after the other; queues are independent."""
    if effect.kind == EffectKind.WEBHOOK:
        return str(effect.payload.get("url"))
    if effect.kind == EffectKind.COMMAND:
        return EffectKind.COMMAND
    if effect.kind == EffectKind.CLOSE_DIALOG:  # nothing waits for a dialog that may never open
        return f"{effect.session_id}/dialog"
    return _end_queue(effect.session_id) if effect.kind in _ON_TERMINALS else effect.session_id


def _began_s(payload: Mapping[str, Any]) -> float:
    """The start of the process in the terminal, in seconds since the epoch, or 0 if unknown."""
    return epoch_s(payload["began"]) if payload.get("began") else 0.0


def _end_queue(session_id: str) -> str:
    return f"{session_id}/end"


@dataclass(eq=False)
class Outbox:
    """Runs queues of effects concurrently, and the effects of one queue in order."""

    _store: Store
    _manager: Manager
    _spawner: Spawner
    _terminals: Terminals
    _sandbox: Sandbox
    _watcher: Watcher
    _notifiers: Mapping[str, Notifier]
    _keeper: SessionKeeper
    _cleanup: Cleanup
    _restorer: Restorer
    _agent_sockets: AgentSockets
    _home_files: HomeFiles
    _interrupts: InterruptEffects
    _limit_dialogs: LimitDialogs
    _end_inspection: EndInspection
    _of_capabilities: Mapping[str, EffectHandler]
    """The effects of capabilities, by their kinds."""
    _last: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    """The newest unfinished effect of each queue, for which the next effect waits."""
    _waiting: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        self._kinds: Mapping[str, EffectHandler] = {
            EffectKind.TYPE: self._type,
            EffectKind.KILL: self._kill,
            EffectKind.INTERRUPT: self._interrupts.interrupt,
            EffectKind.CLOSE_DIALOG: self._limit_dialogs.close,
            EffectKind.INSPECT: self._end_inspection.inspect,
            EffectKind.ARCHIVE: self._archive,
            EffectKind.CLOSE: self._close,
            EffectKind.RELEASE: self._release,
            EffectKind.REMOVE: self._remove,
            EffectKind.COMMAND: self._notify,
            EffectKind.WEBHOOK: self._notify,
            **self._of_capabilities,
        }

    async def run(self) -> None:
        """Carry out the pending effects, then new effects. Never returns."""
        async with asyncio.TaskGroup() as group:
            for effect in await self._store.effects_in("taken"):
                group.create_task(self._give_up_interrupted(effect))
            pending = await self._store.effects_in("pending")
            for effect in pending:
                self._begin(group, effect)
            last = pending[-1].id if pending else 0
            while True:
                effect = await self._store.effects.get()
                if effect.id > last:
                    self._begin(group, effect)

    @durable
    async def _finish(self, effect: Effect, *, dead: str | None = None) -> None:
        """Retry on a full disk: a finished effect must not run again."""
        await self._manager.mark_finished(effect, dead=dead)

    async def _give_up_interrupted(self, effect: Effect) -> None:
        dead = f"the daemon ended during the effect {effect.kind}"
        if effect.kind == EffectKind.TYPE:
            with suppress(SmError):
                launch = await self._store.launch(effect.session_id)
                session = self._store.sessions[effect.session_id]
                await self._terminals.enter_if_unsent(
                    session.terminal, escape_marks(launch.typed_prompt or "")
                )
            dead = "the daemon ended while it typed the prompt: check the agent's terminal"
        await self._finish(effect, dead=dead)

    def _begin(self, group: asyncio.TaskGroup, effect: Effect) -> None:
        queue = queue_of(effect)
        # A restored session's new terminal has the same name as the old one, so effects on the old one come first.
        queues = (queue, _end_queue(effect.session_id)) if effect.payload.get("again") else (queue,)
        predecessors = [self._last[name] for name in queues if name in self._last]
        self._waiting[queue] += 1
        full = self._waiting[queue] > _QUEUE_MAX
        task = group.create_task(self._run_after(predecessors, effect, full=full))
        self._last[queue] = task
        task.add_done_callback(lambda done: self._forget(queue, done))

    def _forget(self, queue: str, done: "asyncio.Task[None]") -> None:
        self._waiting[queue] -= 1
        if self._last.get(queue) is done:
            del self._last[queue], self._waiting[queue]

    async def _run_after(
        self, predecessors: Sequence["asyncio.Task[None]"], effect: Effect, *, full: bool
    ) -> None:
        if full:
            await self._finish(effect, dead=f"{_QUEUE_MAX} notices for this recipient are already waiting")
            return
        if predecessors:
            await asyncio.wait(predecessors)
        await self._retry(effect)

    async def _retry(self, effect: Effect) -> None:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                await self._carry_out(effect)
                return
            except (TerminalUnreachable, StorageFull) as error:
                # The outcome is unknown, or cannot be written.
                log.warning(
                    "will retry an effect: %s", error.message, extra={"sm_session": effect.session_id}
                )
                await asyncio.sleep(backoff.next_s())
            except Exception:
                log.exception("gave up an effect after an error", extra={"sm_session": effect.session_id})
                dead = f"internal error: the {effect.kind} failed, see sm daemon logs"
                if effect.kind == EffectKind.START:  # callers wait for the start, so fail the session
                    await durable(self._spawner.record_failure)(effect, InternalError(dead))
                else:
                    await self._finish(effect, dead=dead)
                return

    async def _carry_out(self, effect: Effect) -> None:
        """Run and finish an effect. Every kind but a start returns the reason for giving up, None when done."""
        carry_out = self._kinds.get(effect.kind)
        if effect.kind == EffectKind.START:
            await self._start(effect)
        elif carry_out is None:
            await self._finish(effect, dead=f"this version does not know the effect {effect.kind}")
        else:
            await self._finish(effect, dead=await carry_out(effect))

    async def _start(self, effect: Effect) -> None:
        session = self._store.sessions[effect.session_id]
        if "adopt" in effect.payload:
            await self._adopt(effect, session)
            return
        again = bool(effect.payload.get("again"))
        if again:
            try:
                await self._end_old_process(session, effect.payload)
            except ExternalError as error:
                await self._spawner.record_failure(effect, error)
                return
        await self._store.wait_until(lambda: self._may_start(session.id))
        session = self._store.sessions[effect.session_id]
        if not is_live(session.status):
            if await self._pane_of(session) is None:
                await self._spawner.record_no_start(effect)
                return
        elif self._is_killed(session.id):
            await self._manager.mark_finished(effect)  # the kill records the end
            return
        prepared = self._spawner.prepared.pop(session.id, None)
        try:
            launch, argv = prepared or await self._prepare_restart(session, again=again)
        except (UsageError, IllegalState, SandboxUnavailable) as error:
            # Since the request, a file of the conversation or the engine has gone.
            await self._spawner.record_failure(effect, error)
            return

        contained = session.effective_mode is TrustLevel.SANDBOXED

        async def open_terminal() -> tuple[Pane, Process | None]:
            await self._agent_sockets.ready_for(session)
            await self._home_files.ready_for(session, launch)
            title = session.display_name
            # The directory of a session in a container need not exist on this host.
            directory = "/" if contained else launch.working_dir
            # Only the daemon that planned the session has it prepared, and only for the first attempt.
            search = again or prepared is None
            pane = await self._terminals.open(
                session.id, session.terminal, directory, argv, title=title, search=search
            )
            return pane, await self._sandbox.wait_started(session, pane.pid)

        try:
            # In parallel with the commit of "starting", which waits for the disk.
            (pane, process), _ = await asyncio.gather(
                open_terminal(), self._spawner.record_launch(session.id)
            )
        except (TerminalUnreachable, StorageFull):
            raise
        except SmError as error:
            install = self._manager.provider(session).install_hint
            if isinstance(error, ProgramMissing) and install is not None and not contained:
                error = ProgramMissing(error.message, "; ".join(filter(None, (install, error.hint))))
            await self._spawner.record_failure(effect, error)
            return
        await self._spawner.record_start(effect, process, typed=launch.typed_prompt is not None)
        # Also for a process that has ended already: the watcher then reads its exit status.
        self._watcher.watch(session.id, process, pane)

    def _may_start(self, session_id: str) -> bool:
        """False while the session is paused or postponed, such as by its account. A kill does not wait for that."""
        session, open = self._store.sessions[session_id], self._store.mail.open
        return (
            (session.paused is None and postponed(session, open, 0.0) is None)
            or not is_live(session.status)
            or self._is_killed(session_id)
        )

    def _is_killed(self, session_id: str, *, force: bool = False) -> bool:
        """True while a kill is ordered. `force`: only a forced one counts."""
        effects = self._store.mail.open.effects.values()
        kills = (e for e in effects if e.session_id == session_id and e.kind == EffectKind.KILL)
        return any(not force or kill.payload.get("force") for kill in kills)

    async def _end_old_process(self, session: Session, payload: Mapping[str, Any]) -> None:
        """End what is left of a restored session's old process, and close its terminal.

        An orphan would act in the session's name and take its messages. The pid of the pane distinguishes the old
        terminal from the new one. With a new terminal this start is repeated, so all processes with the session's mark
        are new. Raises ExternalError.
        """
        pane = await self._pane_of(session)
        if pane is not None and pane.pid != payload.get("pane_pid"):
            return
        if payload.get("process") is not None:
            await self._sandbox.end(session, process_of(payload["process"]), force=False)
        if pane is not None:
            if self._cleanup.auto_archive_transcript and not await self._keeper.is_kept(
                session.id, _began_s(payload)
            ):
                with suppress(StorageFull):  # the next process matters more than the words of the old one
                    await self._keeper.keep(session.id, session.terminal, _began_s(payload))
            await self._terminals.close(session.terminal)

    async def _adopt(self, effect: Effect, session: Session) -> None:
        """Take over a running agent. Idempotent: a repetition marks the same pane again."""
        adopted = effect.payload["adopt"]
        process = process_of(adopted)
        target = ForeignPane(str(adopted["pane_id"]), int(adopted["pane_pid"]))
        foreign = target.pid != process.pid
        try:
            pane = await self._terminals.adopt(
                session.id, session.terminal, target, foreign=foreign, agent_pid=process.pid
            )
        except (NoTerminal, NoServer) as error:
            await self._spawner.record_failure(effect, error)
            return
        # The agent was ready before the adoption, and will not report it again.
        await self._spawner.record_start(effect, process, typed=False, ready=True)
        self._watcher.watch(session.id, process, pane)

    async def _prepare_restart(self, session: Session, *, again: bool) -> tuple[Launch, tuple[str, ...]]:
        launch = await (
            self._restorer.restored_launch(session.id) if again else self._store.launch(session.id)
        )
        return launch, await self._sandbox.prepare(session, launch)

    async def _pane_of(self, session: Session) -> Pane | None:
        try:
            return (await self._terminals.snapshot()).get(session.id)
        except NoServer:
            return None

    async def _type(self, effect: Effect) -> str | None:
        launch = await self._store.launch(effect.session_id)
        session = self._store.sessions[effect.session_id]
        await self._manager.mark_taken(effect)  # from here on the effect is never repeated
        if launch.typed_prompt is not None and session.exit is None:
            try:
                busy = await self._terminals.type_line(session.terminal, escape_marks(launch.typed_prompt))
                return None if busy is None else f"the prompt may not have been typed: {busy.why}"
            except (NoTerminal, NoServer):
                pass  # the watcher reports the end
            except SmError as error:
                return f"the prompt may not have been typed: {error.message}"
        return None

    async def _kill(self, effect: Effect) -> str | None:
        session = self._store.sessions[effect.session_id]
        left: ExternalError | None = None
        if session.process is not None:
            try:
                await self._end(session, session.process, force=bool(effect.payload.get("force")))
            except ExternalError as error:
                if is_alive(session.process):
                    return error.message
                left = error  # the agent has ended, but not everything that it started
            # The watcher records the end. It recognises a kill by this effect, which must still be pending.
            sessions = self._store.sessions
            await self._store.wait_until(
                lambda: (
                    session.id not in sessions
                    or sessions[session.id].exit is not None
                    or sessions[session.id].process != session.process
                )
            )
        elif session.exit is None:
            await self._manager.terminal_lost(
                session.id, None, LossCause.TERMINAL, "the session had no process", process_gone=True
            )
        return None if left is None else left.message

    async def _end(self, session: Session, process: Process, *, force: bool) -> None:
        """End the process of a session. A forced kill, which waits behind this one, ends the grace time."""
        if force:
            await self._sandbox.end(session, process, force=True)
            return
        ending = asyncio.create_task(self._sandbox.end(session, process, force=False))
        forced = asyncio.create_task(self._store.wait_until(lambda: self._is_killed(session.id, force=True)))
        try:
            await asyncio.wait((ending, forced), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await self._sandbox.end(session, process, force=True)
            await ending
        finally:
            ending.cancel()
            forced.cancel()

    async def _archive(self, effect: Effect) -> str | None:
        terminal, began_s = str(effect.payload["terminal"]), _began_s(effect.payload)
        try:
            return await self._keeper.keep(effect.session_id, terminal, began_s)
        except StorageFull as error:  # it is retried, so no dead letter tells of it
            await self._report_full_archive(effect, error.message)
            raise

    async def _report_full_archive(self, effect: Effect, reason: str) -> None:
        """Record that the archive has to wait: once, also if the daemon ends before the effect does."""
        newest = await self._store.events(
            sessions=[effect.session_id], type=EventType.WARNING, limit=_EVENTS_LOOKED_AT
        )
        if any(event.metadata.get("archive") == effect.id for event in newest):
            return
        async with self._store.transaction() as tx:
            session = tx.find(effect.session_id)
            if session is not None:
                await tx.event(
                    EventType.WARNING,
                    session,
                    tx.now,
                    f"{subject(session)} is not archived yet: {reason}",
                    {"archive": effect.id, "reason": reason},
                )

    async def _release(self, effect: Effect) -> None:
        await self._terminals.release(str(effect.payload["terminal"]))

    async def _close(self, effect: Effect) -> None:
        if effect.payload.get("archived"):
            is_kept = await self._keeper.is_kept(effect.session_id, _began_s(effect.payload))
        else:
            is_kept = True
        if is_kept:  # otherwise the terminal has the only copy of its output
            await self._terminals.close(str(effect.payload["terminal"]))

    async def _remove(self, effect: Effect) -> None:
        await self._terminals.close(str(effect.payload["terminal"]))
        await self._sandbox.forget(effect.session_id)
        backoff, logged = Backoff(_ERASE_PAUSE_S, _LONGEST_ERASE_PAUSE_S), False
        while (reason := await self._keeper.erase(effect.session_id)) is not None:
            if not logged:
                log.warning("will try again: %s", reason, extra={"sm_session": effect.session_id})
            logged = True
            await asyncio.sleep(backoff.next_s())

    async def _notify(self, effect: Effect) -> str | None:
        notifier = self._notifiers[effect.kind]
        if notifier.once:
            await self._manager.mark_taken(effect)
        # Counted from the event, so that neither a restart nor a long queue extends the time.
        give_up_s = epoch_s(effect.payload["body"]["timestamp"]) + _NOTIFY_FOR_S
        backoff = Backoff(_NOTIFY_PAUSE_S, _LONGEST_NOTIFY_PAUSE_S)
        while True:
            try:
                await notifier.send(effect.payload.get("url"), effect.payload["body"])
                return None
            except NotifyFailed as error:
                if not error.retryable or time.time() > give_up_s:
                    return error.message
                log.warning(
                    "could not deliver a notice, will retry: %s",
                    error.message,
                    extra={"sm_session": effect.session_id},
                )
            await asyncio.sleep(backoff.next_s())
