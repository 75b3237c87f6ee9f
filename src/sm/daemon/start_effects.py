"""Carries out the starts of agents: opens their terminals, adopts running agents, types first prompts."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from sm.api.agent_sockets import AgentSockets
from sm.core.dataclass import dataclass
from sm.core.lifecycle import is_live
from sm.core.models import Launch, Process, Session
from sm.core.states import TrustLevel
from sm.core.text import escape_marks
from sm.daemon.effect_record import EffectRecord
from sm.daemon.end_effects import EndEffects, is_killed, pane_of
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
from sm.monitor import Watcher
from sm.providers.base import Provider
from sm.sandboxes.base import Sandbox
from sm.sessions.home_files import HomeFiles
from sm.sessions.restore import Restorer
from sm.sessions.spawn import process_of
from sm.sessions.starts import AgentStarts
from sm.state.part_holds import postponed
from sm.store import Effect, Store, durable
from sm.terminals.base import ForeignPane, Pane, Terminals


@dataclass(frozen=True, slots=True, eq=False)
class StartEffects:
    _store: Store
    _providers: Mapping[str, Provider]
    _effects: EffectRecord
    _starts: AgentStarts
    _terminals: Terminals
    _sandbox: Sandbox
    _watcher: Watcher
    _restorer: Restorer
    _agent_sockets: AgentSockets
    _home_files: HomeFiles
    _end: EndEffects

    async def start(self, effect: Effect) -> None:
        """Carry out and finish a start."""
        session = self._store.sessions[effect.session_id]
        if "adopt" in effect.payload:
            await self._adopt(effect, session)
            return
        again = bool(effect.payload.get("again"))
        if again:
            try:
                await self._end.end_old_process(session, effect.payload)
            except ExternalError as error:
                await self._starts.record_failure(effect, error)
                return
        await self._store.wait_until(lambda: self._may_start(session.id))
        session = self._store.sessions[effect.session_id]
        if not is_live(session.status):
            if await pane_of(self._terminals, session) is None:
                await self._starts.record_no_start(effect)
                return
        elif is_killed(self._store, session.id):
            await self._effects.mark_finished(effect)  # the kill records the end
            return
        prepared = self._starts.prepared.pop(session.id, None)
        try:
            launch, argv = prepared or await self._prepare_restart(session, again=again)
        except (UsageError, IllegalState, SandboxUnavailable) as error:
            # Since the request, a file of the conversation or the engine has gone.
            await self._starts.record_failure(effect, error)
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
            (pane, process), _ = await asyncio.gather(open_terminal(), self._starts.record_launch(session.id))
        except (TerminalUnreachable, StorageFull):
            raise
        except SmError as error:
            install = self._providers[session.provider].install_hint
            if isinstance(error, ProgramMissing) and install is not None and not contained:
                error = ProgramMissing(error.message, "; ".join(filter(None, (install, error.hint))))
            await self._starts.record_failure(effect, error)
            return
        await self._starts.record_start(effect, process, typed=launch.typed_prompt is not None)
        # Also for a process that has ended already: the watcher then reads its exit status.
        self._watcher.watch(session.id, process, pane)

    def _may_start(self, session_id: str) -> bool:
        """False while the session is paused or postponed, such as by its account. A kill does not wait for that."""
        session, open = self._store.sessions[session_id], self._store.mail.open
        return (
            (session.paused is None and postponed(session, open, 0.0) is None)
            or not is_live(session.status)
            or is_killed(self._store, session_id)
        )

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
            await self._starts.record_failure(effect, error)
            return
        # The agent was ready before the adoption, and will not report it again.
        await self._starts.record_start(effect, process, typed=False, ready=True)
        self._watcher.watch(session.id, process, pane)

    async def _prepare_restart(self, session: Session, *, again: bool) -> tuple[Launch, tuple[str, ...]]:
        launch = await (
            self._restorer.restored_launch(session.id) if again else self._store.launch(session.id)
        )
        return launch, await self._sandbox.prepare(session, launch)

    async def type_prompt(self, effect: Effect) -> str | None:
        """Type the first prompt, as an `EffectHandler` of `kernel`."""
        launch = await self._store.launch(effect.session_id)
        session = self._store.sessions[effect.session_id]
        await self._effects.mark_taken(effect)  # from here on the effect is never repeated
        if launch.typed_prompt is not None and session.exit is None:
            try:
                busy = await self._terminals.type_line(session.terminal, escape_marks(launch.typed_prompt))
                return None if busy is None else f"the prompt may not have been typed: {busy.why}"
            except (NoTerminal, NoServer):
                pass  # the watcher reports the end
            except SmError as error:
                return f"the prompt may not have been typed: {error.message}"
        return None

    async def enter_interrupted(self, effect: Effect) -> None:
        """Press Enter if an earlier daemon ended while it typed the prompt, as far as the terminal shows that."""
        with suppress(SmError):
            launch = await self._store.launch(effect.session_id)
            session = self._store.sessions[effect.session_id]
            await self._terminals.enter_if_unsent(session.terminal, escape_marks(launch.typed_prompt or ""))

    async def fail(self, effect: Effect, error: InternalError) -> None:
        """Record that a start failed by a defect of sm. Retries on a full disk."""
        await durable(self._starts.record_failure)(effect, error)
