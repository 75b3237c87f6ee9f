"""Carries out committed effects: starts, kills, typed prompts, notifications.

Almost every effect is idempotent and may be repeated after a crash: a start finds the terminal that carries its
session's id, a kill finds the process gone. An effect that cannot be repeated (typing, running the operator's program)
is marked as taken before it runs. A taken effect that a crash interrupted becomes a dead letter.

Calls to Telegram are rows of the outbox too. `telegram.sender` carries them out, because their order follows the need.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.daemon.effect_record import EffectRecord
from sm.daemon.start_effects import StartEffects
from sm.errors import (
    InternalError,
    StorageFull,
    TerminalUnreachable,
)
from sm.kernel import EffectHandler
from sm.store import Effect, Store, durable

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_QUEUE_MAX = 1_000
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


def _end_queue(session_id: str) -> str:
    return f"{session_id}/end"


@dataclass(eq=False)
class Outbox:
    """Runs queues of effects concurrently, and the effects of one queue in order."""

    _store: Store
    _effects: EffectRecord
    _start: StartEffects
    _kinds: Mapping[str, EffectHandler]
    """The handlers of all kinds but starts."""
    _last: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    """The newest unfinished effect of each queue, for which the next effect waits."""
    _waiting: Counter[str] = field(init=False, default_factory=Counter)

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
        await self._effects.mark_finished(effect, dead=dead)

    async def _give_up_interrupted(self, effect: Effect) -> None:
        dead = f"the daemon ended during the effect {effect.kind}"
        if effect.kind == EffectKind.TYPE:
            await self._start.enter_interrupted(effect)
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
                    await self._start.fail(effect, InternalError(dead))
                else:
                    await self._finish(effect, dead=dead)
                return

    async def _carry_out(self, effect: Effect) -> None:
        """Run and finish an effect. Every kind but a start returns the reason for giving up, None when done."""
        carry_out = self._kinds.get(effect.kind)
        if effect.kind == EffectKind.START:
            await self._start.start(effect)
        elif carry_out is None:
            await self._finish(effect, dead=f"this version does not know the effect {effect.kind}")
        else:
            await self._finish(effect, dead=await carry_out(effect))
