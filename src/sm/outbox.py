"""Carries out what the store has committed: starts, kills, typed prompts. Nothing else changes the outside world.

Every effect may be repeated after a crash, because each asks the world first: a start finds the terminal
that carries its session's id, a kill finds the process gone. Only typing cannot be repeated: it is marked
before it happens, and one that was interrupted becomes a dead letter.
"""

import asyncio
import logging
from collections.abc import Callable

from sm.errors import Bug, CouldNotAsk, NoServer, NoTerminal, SmError, StorageFull
from sm.lifecycle import is_live
from sm.manager import KILL, START, TYPE, Manager
from sm.models import Launch, Process
from sm.sandboxes.base import Sandbox
from sm.store import Effect, Store
from sm.terminals.base import Pane, Terminals

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class Outbox:
    """Runs effects at the same time, but those of one session one after the other, in order."""

    def __init__(
        self,
        store: Store,
        manager: Manager,
        terminals: Terminals,
        sandbox: Sandbox,
        watch: Callable[[str, Process, Pane], None],
    ) -> None:
        self._store = store
        self._manager = manager
        self._terminals = terminals
        self._sandbox = sandbox
        self._watch = watch
        self._last: dict[str, asyncio.Task[None]] = {}
        """The newest effect of each session that is not done: the next one waits for it."""
        self._kinds = {START: self._start, TYPE: self._type, KILL: self._kill}

    async def run(self) -> None:
        """Carry out what is pending, then what comes. Never returns."""
        async with asyncio.TaskGroup() as group:
            for effect in await self._store.effects_in("taken"):
                dead = "the daemon ended while it typed the prompt: look at its terminal"
                await self._manager.finished(effect, dead=dead)
            left = await self._store.effects_in("pending")
            for effect in left:
                self._begin(group, effect)
            last = left[-1].id if left else 0
            while True:
                effect = await self._store.effects.get()
                if effect.id > last:
                    self._begin(group, effect)

    def _begin(self, group: asyncio.TaskGroup, effect: Effect) -> None:
        before = self._last.get(effect.session_id)
        task = group.create_task(self._after(before, effect))
        self._last[effect.session_id] = task
        task.add_done_callback(lambda done: self._forget(effect.session_id, done))

    def _forget(self, session_id: str, done: "asyncio.Task[None]") -> None:
        if self._last.get(session_id) is done:
            del self._last[session_id]

    async def _after(self, before: "asyncio.Task[None] | None", effect: Effect) -> None:
        if before is not None:
            await asyncio.wait([before])
        await self._until_known(effect)

    async def _until_known(self, effect: Effect) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._carry_out(effect)
                return
            except (
                CouldNotAsk,
                StorageFull,
            ) as error:  # nothing may be concluded, or written: ask again later
                log.warning("put off an effect: %s", error.message, extra={"sm_session": effect.session_id})
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except Exception:
                log.exception("gave up an effect", extra={"sm_session": effect.session_id})
                dead = f"a defect of sm: its {effect.kind} failed, see sm daemon logs"
                if effect.kind == START:  # nobody may wait for ever for what will not come
                    await self._manager.start_failed(effect, Bug(dead))
                else:
                    await self._manager.finished(effect, dead=dead)
                return

    async def _carry_out(self, effect: Effect) -> None:
        carry_out = self._kinds.get(effect.kind)
        if carry_out is None:
            await self._manager.finished(effect, dead=f"this version does not know the effect {effect.kind}")
        else:
            await carry_out(effect)

    async def _start(self, effect: Effect) -> None:
        session = self._store.sessions[effect.session_id]
        if not is_live(session.status) and session.id not in await self._terminals_now():
            await self._manager.finished(effect)  # ended before it was started
            return
        prepared = self._manager.prepared.pop(session.id, None)
        launch, argv = await self._prepared_again(session.id) if prepared is None else prepared

        async def opened() -> tuple[Pane, Process | None]:
            pane = await self._terminals.open(session.id, session.terminal, launch.working_dir, argv)
            return pane, await self._sandbox.wait_started(session.id, pane.pid)

        try:
            # The commit of "starting" waits for the disk meanwhile.
            (pane, process), _ = await asyncio.gather(opened(), self._manager.launching(session.id))
        except (CouldNotAsk, StorageFull):
            raise
        except SmError as error:
            await self._manager.start_failed(effect, error)
            return
        await self._manager.started(effect, process, typed=launch.typed_prompt is not None)
        # Watched also when it has ended already: then the watcher learns at once how.
        self._watch(session.id, process or Process(pane.pid, "gone"), pane)

    async def _prepared_again(self, session_id: str) -> tuple[Launch, tuple[str, ...]]:
        launch = await self._store.launch(session_id)
        return launch, await self._sandbox.prepare(session_id, launch)

    async def _terminals_now(self) -> frozenset[str]:
        try:
            return frozenset(await self._terminals.snapshot())
        except NoServer:
            return frozenset()

    async def _type(self, effect: Effect) -> None:
        launch = await self._store.launch(effect.session_id)
        session = self._store.sessions[effect.session_id]
        await self._manager.taken(effect)  # from here on it is never repeated
        if launch.typed_prompt is None or session.exit is not None:
            await self._manager.finished(effect)
            return
        try:
            await self._terminals.type_line(session.terminal, launch.typed_prompt)
        except (NoTerminal, NoServer):  # the watcher tells of the ending
            await self._manager.finished(effect)
        except SmError as error:
            await self._manager.finished(effect, dead=f"its prompt may not have been typed: {error.message}")
        else:
            await self._manager.finished(effect)

    async def _kill(self, effect: Effect) -> None:
        session = self._store.sessions[effect.session_id]
        if session.process is not None:
            await self._sandbox.end(session.process, force=bool(effect.payload.get("force")))
            # The watcher tells how it ended, and sees by this effect, still pending, that it was a kill.
            await self._store.changed(lambda: self._store.sessions[session.id].exit is not None)
        elif session.exit is None:
            await self._manager.terminal_lost(session.id, "it had no process", process_gone=True)
        await self._manager.finished(effect)
