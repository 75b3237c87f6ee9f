"""Sessions that go on: restored in a new process, interrupted, forked, adopted from a terminal of a person's own."""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sm import hostos, recall
from sm.asking import open_of
from sm.endings import INTERRUPT
from sm.errors import (
    IllegalState,
    NameTaken,
    NoServer,
    NoTerminal,
    NotFound,
    NotInTime,
    OutsideFailed,
    SmError,
    UsageError,
)
from sm.evidence import Source
from sm.family import Family
from sm.lifecycle import is_ended, is_live
from sm.manager import KILL, START, Answer, Lost, Manager
from sm.models import (
    Caller,
    EventType,
    Launch,
    Process,
    RequestKey,
    RequestKind,
    Session,
    Signal,
    SignalKind,
    SpawnRequest,
    Status,
    TrustLevel,
)
from sm.policy import Action
from sm.providers.base import Provider
from sm.sandboxes.base import Sandbox
from sm.spawning import Spawning, digest
from sm.spool import read_at_most
from sm.store import Store, Transaction
from sm.terminals.base import Pane, Stranger, Terminals
from sm.text import folded
from sm.wording import subject

INTERRUPTIBLE = frozenset({Status.RUNNING, Status.WAITING_INPUT})
"""When there is something to interrupt in an agent that has turns."""

RESTORE = "restore"
"""The source of a restored session's status."""

_READY = frozenset({EventType.STARTED, EventType.RUNNING, EventType.IDLE})
"""What only an agent that was ready can have come to."""
_HISTORY = 200
_START_WAIT_S = 20.0  # less than a client waits for an answer
_KILLED_WITHIN_S = 5.0
_PRESSED_WITHIN_S = 15.0
_LEFT_OFF_WITHIN_S = 5.0
_PUBLISHED_MAX_BYTES = 64 * 1024
_USUAL_TYPE = "general-purpose"


@dataclass(frozen=True, slots=True)
class Restored:
    """Which sessions run again, and which do not and why."""

    sessions: tuple[Session, ...]
    failed: tuple[tuple[str, SmError], ...] = ()


@dataclass(frozen=True, slots=True)
class Interrupted:
    session: Session
    stopped: bool | None
    """Whether it left off what it did; None: an agent without turns does not say."""


class Revival:
    """The use cases of sessions that go on."""

    def __init__(
        self,
        store: Store,
        manager: Manager,
        spawning: Spawning,
        sandbox: Sandbox,
        terminals: Terminals,
        providers: Mapping[str, Provider],
    ) -> None:
        self._store = store
        self._manager = manager
        self._spawning = spawning
        self._sandbox = sandbox
        self._terminals = terminals
        self._providers = providers

    # Restoring

    async def restore(
        self,
        caller: Caller,
        reference: str,
        key: RequestKey | None,
        *,
        tree: bool,
        listens: Callable[[], bool] = lambda: True,
    ) -> Restored:
        """Start an ended session again, in a new process: return when it runs, or has run and ended.

        With `tree` its ended descendants too, parents before children, but for those that were archived; whether
        it lives itself or not. An archived session that is named is taken out of the archive. Raises IllegalState
        when there is nothing to restore, NameTaken, PathRefused, and as a spawn does.
        """
        session = self._manager.find(caller, reference, Action.RESTORE)
        if not tree:
            panes = await self._panes()
            await self._begin_again(caller, session.id, key, panes)
            return Restored((await self._started(caller, session.id, listens),))

        def below(tx: Transaction) -> list[Session]:
            family = Family({s.id: s for s in tx.all_sessions()})
            found = [s for s in family.descendants(session.id) if _is_over(s) and not s.archived]
            found = self._manager.allowed(caller, Action.RESTORE, found, family)
            now = tx.session(session.id)
            if not _is_over(now) and not found:
                _refuse(now)
            return [now, *found] if _is_over(now) else found

        return await self._restore_each(caller, key, below, listens)

    async def restore_all(
        self, caller: Caller, key: RequestKey | None, listens: Callable[[], bool] = lambda: True
    ) -> Restored:
        """Restore every session that lived when its terminal went: with the machine, with the tmux server.

        Those are the ones that ended by `Lost.SERVER` or `Lost.MACHINE`, as their rows say, and that nobody has
        archived since; a terminal that somebody closed was closed on purpose. Parents before children.
        """
        self._manager.require(caller, Action.RESTORE_ALL)

        def lost(tx: Transaction) -> list[Session]:
            found = [s for s in tx.all_sessions() if _was_lost(s) and _is_over(s) and not s.archived]
            return sorted(found, key=lambda s: _depth(tx, s))

        return await self._restore_each(caller, key, lost, listens)

    async def _restore_each(
        self,
        caller: Caller,
        key: RequestKey | None,
        chosen: Callable[[Transaction], Sequence[Session]],
        listens: Callable[[], bool],
    ) -> Restored:
        """One after the other, so that a parent is there before its children; then wait for all of them."""
        at = self._manager.now()

        async def choose(tx: Transaction) -> list[str]:
            # Kept with the key: a repetition must not take those for live ones that the first time has restored.
            earlier = await recall.recalled(tx, caller, key)
            if earlier is not None:
                return earlier.split()
            ids = [session.id for session in chosen(tx)]
            await recall.remember(tx, caller, key, " ".join(ids), at)
            return ids

        wanted = await self._store.write(choose)
        panes = await self._panes() if wanted else {}
        begun: list[str] = []
        failed: dict[str, SmError] = {}
        for session_id in wanted:
            part = None if key is None else RequestKey(f"{key.text}/{session_id}", key.fingerprint)
            try:
                await self._begin_again(caller, session_id, part, panes)
            except SmError as error:
                failed[session_id] = error
            else:
                begun.append(session_id)

        async def settle(session_id: str) -> Session | None:
            try:
                return await self._started(caller, session_id, listens)
            except SmError as error:
                failed[session_id] = error
                return None

        settled = await asyncio.gather(*map(settle, begun))
        running = tuple(session for session in settled if session is not None)
        return Restored(running, tuple((s, failed[s]) for s in wanted if s in failed))

    async def _begin_again(
        self, caller: Caller, session_id: str, key: RequestKey | None, panes: Mapping[str, Pane]
    ) -> None:
        """Commit that the session starts again; the outbox does the rest. Done once for each `key`."""
        if await self._recalled(caller, key) is not None:
            return
        session = self._store.sessions.get(session_id)
        if session is None:
            raise NotFound(f"no such session: {session_id}", "sm all lists them")
        _check(session)
        await self._until_not_being_killed(session_id)
        pane = panes.get(session_id)
        _refuse_a_strange_process(session, pane)
        launch, token, warnings = await self._spawning.plan_again(
            session, self._store.sessions.get(session.parent_id or ""), await self._store.launch(session_id)
        )
        at = self._manager.now()

        async def unit(tx: Transaction) -> None:
            if await recall.recalled(tx, caller, key) is not None:
                return
            now = tx.session(session_id)
            _check(now)
            if tx.has_open(KILL, session_id):  # it would end the new process too
                raise IllegalState(f"session {session_id} is being killed")
            others = (s for s in tx.all_sessions() if s.id != session_id and is_live(s.status))
            if now.friendly_name is not None and any(s.friendly_name == now.friendly_name for s in others):
                raise NameTaken(f"a live session is named {now.friendly_name} already")
            self._manager.counting.again(tx, caller, now)
            # Within the transaction, which is the only one: of two restores at the same time the second must
            # not write its token over that of the first. What the file says before the commit harms nobody:
            # the process that had the token before is gone.
            await self._sandbox.prepare(session_id, launch, token)
            reason = f"restored by {caller}"
            after = await self._manager.move(
                tx,
                session_id,
                Signal(SignalKind.RESTARTED, RESTORE, reason, at),
                process=None,
                exit=None,
                started_at=None,
                token_hash=digest(token),
                archived=False,
            )
            if now.archived:
                line = f"{subject(after)} taken out of the archive"
                await tx.event(EventType.ARCHIVED, after, at, line, {"archived": False})
            for warning in warnings:
                await tx.event(EventType.WARNING, after, at, f"{subject(after)} - {warning}", {})
            # Its old terminal goes before the new one is made. By its process, because a start that is repeated
            # after a crash finds the new one under the same id, dead perhaps.
            payload = {
                "again": True,
                "pane_pid": None if pane is None else pane.pid,
                "process": None if now.process is None else _as_payload(now.process),
            }
            await tx.effect(START, session_id, payload, at)
            await recall.remember(tx, caller, key, session_id, at)

        await self._store.write(unit)

    async def launch_again(self, session_id: str) -> Launch:
        """How the process of a restored session is started, for the outbox. Raises as `restore`."""
        session = self._store.sessions[session_id]
        parent = self._store.sessions.get(session.parent_id or "")
        launch, *_ = await self._spawning.plan_again(session, parent, await self._store.launch(session_id))
        return launch

    async def _panes(self) -> Mapping[str, Pane]:
        try:
            return await self._terminals.snapshot()
        except NoServer:
            return {}

    async def _until_not_being_killed(self, session_id: str) -> None:
        """The order to kill it is done a moment after its end is known."""

        def killed() -> bool:
            effects = self._store.mail.open.effects.values()
            return not any(e.kind == KILL and e.session_id == session_id for e in effects)

        try:
            async with asyncio.timeout(_KILLED_WITHIN_S):
                await self._store.changed(killed)
        except TimeoutError:
            raise NotInTime(f"session {session_id} is still being killed", "repeat it in a moment") from None

    async def _started(self, caller: Caller, session_id: str, listens: Callable[[], bool]) -> Session:
        try:
            return await self._manager.start_of(session_id, _START_WAIT_S)
        except SmError:
            if listens():
                await self._manager.heard(caller, [session_id])
            raise

    async def _recalled(self, caller: Caller, key: RequestKey | None) -> str | None:
        return None if key is None else await self._store.write(lambda tx: recall.recalled(tx, caller, key))

    # Interrupting

    async def interrupt(self, caller: Caller, reference: str, key: RequestKey | None) -> Interrupted:
        """Press the key that makes an agent leave off, once, and wait a moment for it to do so.

        Raises IllegalState when there is nothing to interrupt, or something that a person has to answer first;
        OutsideFailed, NotInTime when it is not known whether the key was pressed: it is not pressed again.
        """
        session = self._manager.find(caller, reference, Action.INTERRUPT)
        has_turns = self._manager.provider(session).has_turns
        at = self._manager.now()
        if has_turns and await self._stuck_at_start(session):
            raise IllegalState(
                f"session {session.id} was not ready yet: {session.status_reason}",
                f"sm attach {session.id}; the key would end it, and so does sm kill {session.id}",
            )

        async def unit(tx: Transaction) -> int:
            earlier = await recall.recalled(tx, caller, key)
            if earlier is not None:
                return int(earlier)
            _check_interruptible(tx.session(session.id), has_turns=has_turns)
            await tx.effect(INTERRUPT, session.id, {"by": str(caller)}, at)
            effect_id = tx.effects[-1].id
            for request in open_of(tx.mail.open.requests, session.id, list(RequestKind)):
                if request.hook is not None and not request.offered:  # the key closes its dialog
                    tx.mail.change_request(request, reason=f"it was interrupted by {caller}")
            await recall.remember(tx, caller, key, str(effect_id), at)
            return effect_id

        effect_id = await self._store.write(unit)
        try:
            async with asyncio.timeout(_PRESSED_WITHIN_S):
                await self._store.changed(lambda: effect_id not in self._store.mail.open.effects)
        except TimeoutError:
            raise NotInTime(
                f"the terminal of session {session.id} does not answer; it will be interrupted when it does",
                f"sm status {session.id}",
            ) from None
        if any(effect.id == effect_id for effect in await self._store.effects_in("dead")):
            raise OutsideFailed(
                f"session {session.id} may not have been interrupted", f"sm attach {session.id}"
            )
        if not has_turns:
            return Interrupted(self._store.sessions.get(session.id, session), None)

        def left_off() -> bool:
            now = self._store.sessions.get(session.id)
            return now is None or now.status not in INTERRUPTIBLE

        try:
            async with asyncio.timeout(_LEFT_OFF_WITHIN_S):
                await self._store.changed(left_off)
        except TimeoutError:
            return Interrupted(self._store.sessions.get(session.id, session), stopped=False)
        return Interrupted(self._store.sessions.get(session.id, session), stopped=True)

    async def _stuck_at_start(self, session: Session) -> bool:
        """Whether something on its screen keeps it from its first input: then the key means to leave the program.

        The same status and source as that of a dialog that somebody has opened since; so its history tells.
        """
        if session.status is not Status.WAITING_INPUT or session.status_source != Source.SCREEN:
            return False
        for event in reversed(await self._store.events(sessions=[session.id], limit=_HISTORY)):
            if event.type in _READY:
                return False
            if event.type in (EventType.SPAWNED, EventType.REOPENED):
                return event.type is EventType.SPAWNED or event.metadata.get("source") == RESTORE
        return False

    # Forking

    async def fork(
        self,
        caller: Caller,
        reference: str,
        name: str | None,
        key: RequestKey | None,
        listens: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """Start a session that goes on with a copy of another's conversation, beside it: under the same parent.

        Where that one's process is gone, under the nearest above whose process lives. Raises UsageError for an
        agent that has no conversation, IllegalState for one that has not begun any, and as a spawn does.
        """
        original = self._manager.find(caller, reference, Action.FORK)
        launch = await self._store.launch(original.id)
        parent = self._above(original)
        above = None if parent is None else await self._store.launch(parent.id)
        planned = await self._spawning.plan_fork(caller, original, parent, launch, above, name)
        return await self._manager.begin(caller, planned, key, _START_WAIT_S, listens)

    def _above(self, session: Session) -> Session | None:
        sessions, seen = self._store.sessions, {session.id}
        above = sessions.get(session.parent_id or "")
        while above is not None and above.exit is not None and above.id not in seen:
            seen.add(above.id)
            above = sessions.get(above.parent_id or "")
        return None if above is None or above.exit is not None else above

    # Adopting

    async def adopt(
        self,
        caller: Caller,
        target: str,
        key: RequestKey | None,
        *,
        name: str | None,
        agent_type: str | None,
        trust: str | None,
        listens: Callable[[], bool] = lambda: True,
    ) -> Answer:
        """Make a session of an agent that runs already, in the tmux pane that `target` names.

        Nothing is done to the agent, and its pane is neither moved nor renamed. Raises NotFound without such a pane,
        IllegalState when it is a session already or holds no agent, or more than one, and as a spawn does.
        """
        self._manager.require(caller, Action.ADOPT, target)
        earlier = await self._recalled(caller, key)
        if earlier is not None:
            return Answer(await self._started(caller, earlier, listens))
        try:
            pane = await self._terminals.look(target)
        except (NoTerminal, NoServer) as error:
            raise NotFound(
                f"no such pane: {folded(target, 80)} ({error.message})", "tmux list-panes -a"
            ) from None
        self._refuse_a_session(pane)
        process, provider = await self._agent_in(pane)
        request = SpawnRequest(
            agent_type=agent_type or _usual_type(provider),
            name=name,
            working_dir=hostos.working_dir(process.pid),
            trust=trust or TrustLevel.DIRECT.value,
            environment=hostos.environment(process.pid),
        )
        planned = await self._spawning.plan(caller, request, None, None, runs=True)
        if planned.session.provider != provider.name:
            raise UsageError(
                f"process {process.pid} in pane {pane.pane_id} is a {provider.name}, and {request.agent_type} is not",
                f"--type {_usual_type(provider)}",
            )
        session = replace(
            planned.session,
            status_reason=f"adopted from pane {pane.pane_id}",
            effective_mode=TrustLevel.DIRECT,  # it runs where it runs
            model=None,
            conversation=await self._conversation(provider, planned.launch, process),
            token_hash=None,  # a process that runs already cannot be given a token
        )
        flags = provider.flags_of(hostos.command_line(process.pid))
        launch = replace(planned.launch, flags=flags)
        planned = replace(planned, session=session, launch=launch)
        adopted = {"pane_id": pane.pane_id, "pane_pid": pane.pid, **_as_payload(process)}

        async def unit(tx: Transaction) -> Session:
            starting = [e.payload.get("adopt") for e in tx.mail.open.effects.values() if e.kind == START]
            if any(s.process == process and s.exit is None for s in tx.all_sessions()) or adopted in starting:
                raise IllegalState(f"process {process.pid} in pane {pane.pane_id} is a session already")
            return await self._manager.insert(tx, planned, caller, key, {"adopt": adopted})

        inserted = await self._store.write(unit)
        return Answer(await self._started(caller, inserted.id, listens), planned.warnings)

    def _refuse_a_session(self, pane: Stranger) -> None:
        if pane.taken:
            raise IllegalState(
                f"pane {pane.pane_id} stands in a terminal that sm has made, or that another sm uses",
                "sm adopt takes agents that you have started yourself",
            )
        known = self._store.sessions.get(pane.session_id or "")
        if known is not None and known.exit is None:
            raise IllegalState(f"pane {pane.pane_id} is session {known.id} already", f"sm status {known.id}")

    async def _agent_in(self, pane: Stranger) -> tuple[Process, Provider]:
        """The one agent among the pane's process and what it started; what an agent itself started is none."""
        root = hostos.identify(pane.pid)
        tree = [] if root is None else await asyncio.to_thread(hostos.process_tree, root)
        found: dict[int, tuple[Process, Provider]] = {}
        for process in tree:
            argv = hostos.command_line(process.pid)
            for provider in self._providers.values():
                if argv and provider.adopts(argv):
                    found[process.pid] = (process, provider)
        top = [each for pid, each in found.items() if not found.keys() & set(hostos.ancestry(pid)[1:])]
        if len(top) == 1:
            return top[0]
        if not top:
            raise IllegalState(f"no agent runs in pane {pane.pane_id}", "sm spawn starts one")
        pids = ", ".join(str(process.pid) for process, _ in top)
        raise IllegalState(
            f"more than one agent runs in pane {pane.pane_id}: processes {pids}", "end all but one"
        )

    async def _conversation(self, provider: Provider, launch: Launch, process: Process) -> str | None:
        """The conversation that the agent says it is in; None when it does not say."""
        if provider.reader is None:
            return None
        path = provider.reader.state_file(launch.environment, process.pid)
        text = await asyncio.to_thread(read_at_most, path, _PUBLISHED_MAX_BYTES)
        state = provider.reader.state(text, process) if text else None
        return None if state is None else state[1]


def left_behind(session_id: str, process: Process, sessions: Mapping[str, Session]) -> list[Process]:
    """What runs on with this session's mark since its `process` began, also out of its tree (setsid(2)). Blocks.

    Neither this daemon nor anything that an agent of another session is below: a terminal server, for one.
    """
    boot, _, began = process.started.partition("/")
    if boot != hostos.boot_id():
        return []
    living = [s.process.pid for s in sessions.values() if s.process is not None and s.exit is None]
    spared = {above for pid in (os.getpid(), *living) for above in hostos.ancestry(pid)}
    everything = hostos.process_tree(Process(0, f"{boot}/0"))  # 0: the parent of those that have none
    return [
        each
        for each in everything
        if int(each.started.partition("/")[2]) >= int(began)
        and each.pid not in spared
        and hostos.environ_value(each.pid, "SM_SESSION_ID") == session_id
    ]


def _usual_type(provider: Provider) -> str:
    """The agent type of an agent that nobody has given one."""
    types: Collection[str] = provider.agent_types
    if not types:
        raise UsageError(f"no agent type is configured for {provider.name}", "sm config shows those that are")
    return _USUAL_TYPE if _USUAL_TYPE in types else next(iter(types))


def _is_over(session: Session) -> bool:
    """It has ended, and its process is gone."""
    return is_ended(session.status) and session.exit is not None


def _was_lost(session: Session) -> bool:
    """It lived until all terminals went. `Manager` writes the source together with the signal."""
    return session.status is Status.ERROR and session.status_source in (Lost.SERVER, Lost.MACHINE)


def _depth(tx: Transaction, session: Session) -> int:
    seen: set[str] = set()
    above = tx.find(session.parent_id)
    while above is not None and above.id not in seen:
        seen.add(above.id)
        above = tx.find(above.parent_id)
    return len(seen)


def _check(session: Session) -> None:
    if not _is_over(session):
        _refuse(session)


def _refuse(session: Session) -> None:
    if is_ended(session.status):
        raise IllegalState(
            f"session {session.id} has ended ({session.status}), but its process lives",
            f"sm send {session.id} gives it more work; or sm kill {session.id} first",
        )
    raise IllegalState(
        f"session {session.id} is {session.status}: it runs, there is nothing to restore",
        f"sm attach {session.id}",
    )


def _refuse_a_strange_process(session: Session, pane: Pane | None) -> None:
    """Somebody may have started another program in the terminal of an ended session (tmux respawn-pane)."""
    if pane is None or pane.dead or pane.foreign or hostos.identify(pane.pid) is None:
        return
    raise IllegalState(
        f"process {pane.pid} runs in the terminal of session {session.id}, and is not its agent",
        f"sm attach {session.id}, and end it",
    )


def _check_interruptible(session: Session, *, has_turns: bool) -> None:
    if is_ended(session.status):
        raise IllegalState(f"session {session.id} has ended ({session.status})")
    if session.process is None:
        raise IllegalState(f"session {session.id} is still starting", f"sm status {session.id}")
    if has_turns and session.status not in INTERRUPTIBLE:
        raise IllegalState(f"session {session.id}: it is {session.status}: there is nothing to interrupt")


def process_of(payload: Mapping[str, Any]) -> Process:
    """The process that a START effect names: the agent that it adopts, or that of a restored session before."""
    return Process(int(payload["pid"]), str(payload["started"]))


def _as_payload(process: Process) -> Mapping[str, Any]:
    return {"pid": process.pid, "started": process.started}
