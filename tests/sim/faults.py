"""Carries out the faults of a fleet."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.sim.company import Company
from tests.sim.fleet import Entry, Fault
from tests.sim.told import Cause, Told
from tests.sim.world import World

_DEAF_S = 20.0
_SLOW_CALL_S = 0.7
_SLOW_S = 30.0
_FULL_S = 25.0
_LATE_S = 25.0
_UNREAD_S = 60.0
_STEPS = 400


class Faults:
    """Faults in one world. `hook` tells the played hooks which events fail."""

    def __init__(
        self,
        world: World,
        told: Told,
        say: Callable[[str], None],
        start_daemon: Callable[[], Awaitable[None]],
        seed: int,
        company: Company,
    ) -> None:
        self._company = company
        self._world = world
        self._told = told
        self._say = say
        self._start_daemon = start_daemon
        self._call_s = world.server.call_s
        self._chance = random.Random(f"hooks {seed}")
        self._hooks_left: Counter[str] = Counter()
        self._dropping = asyncio.Lock()

    def hook(self, session_id: str) -> str | None:
        """The fault of the next event of a session."""
        if self._hooks_left[session_id] <= 0:
            return None
        self._hooks_left[session_id] -= 1
        kind = self._chance.choice(("late", "twice", "never"))
        self._say(f"FAULT a hook of {session_id}: {kind}")
        return kind

    async def carry_out(self, entry: Entry, target: str | None) -> None:
        world, value = self._world, entry.value
        run = None if target is None else self._told.run_of(target)
        match entry.act:
            case Fault.DROP | Fault.DROP_TWICE:
                await self._drop(value, twice=entry.act is Fault.DROP_TWICE)
            case Fault.PROCESS if run is not None:
                self._say(f"FAULT SIGKILL of {target}")

                def kill() -> None:
                    if run.process.exit is None:
                        run.cause = Cause.FAULT
                        world.kernel.signal(run.process, 9)

                world.loop.interrupt_after(1 + int(_STEPS * value**3), kill)
            case Fault.SERVER:
                self._say("FAULT the terminal server ends")
                self._told.servers_lost += 1
                for runs in self._told.runs.values():
                    if runs[-1].process.exit is None:
                        runs[-1].cause = Cause.SERVER
                world.server.kill()
            case Fault.DEAF:
                self._say("FAULT the terminal server is deaf")
                world.server.is_deaf = True
                await asyncio.sleep(_DEAF_S * value)
                world.server.is_deaf = False
            case Fault.SLOW:
                self._say("FAULT the terminal server is slow")
                world.server.call_s = _SLOW_CALL_S * value
                await asyncio.sleep(_SLOW_S)
                world.server.call_s = self._call_s  # also after two of these faults at a time
            case Fault.CLOCK:
                by_s = (value - 0.5) * 240
                self._say(f"FAULT the clock steps by {by_s:.0f} s")
                world.clocks.step(by_s)
            case Fault.HOOKS if target is not None:
                self._hooks_left[target] += 1 + int(4 * value)
            case Fault.PERSON if run is not None and target is not None:
                await self._type(target, value)
            case Fault.DISK:
                self._say("FAULT the disk is full")
                world.disk.is_full = True
                await asyncio.sleep(_FULL_S * value)
                world.disk.is_full = False
            case Fault.EVENTS:
                await self._lose_file_events(value)
            case Fault.CUT if (views := self._company.views) is not None:
                self._say("FAULT a view loses its connection")
                views.find(entry.target).cut()
            case Fault.UNREAD if (views := self._company.views) is not None:
                self._say("FAULT a view does not read")
                await views.find(entry.target).stop_reading(_UNREAD_S * value)
            case Fault.PUMP if self._company.tools is not None:
                self._company.tools.kill(entry.target)
            case Fault.ENGINE if self._company.sandboxed is not None:
                await self._company.sandboxed.fail(value)
            case Fault.RECEIVER if self._company.webhook is not None:
                await self._company.webhook.fail(value)
            case Fault.TELEGRAM if self._company.phone is not None:
                await self._company.phone.fail(value)
            case _:
                pass

    async def _drop(self, value: float, *, twice: bool) -> None:
        world, steps = self._world, 1 + int(_STEPS * value**3)
        async with self._dropping:
            await self._start_daemon()
            self._say(f"FAULT drop after {steps} steps{', and again' if twice else ''}")
            await world.drop_after(steps)
            await asyncio.sleep(1 + 10 * value)
            if twice:
                world.drop_next_after(1 + int(1500 * (value * 7 % 1)))
            await self._start_daemon()

    async def _lose_file_events(self, value: float) -> None:
        events = self._world.file_events
        if value < 0.3:
            self._say("FAULT the queue of file events overflows")
            events.overflows = True
            return
        self._say(f"FAULT file events are {'late' if value < 0.6 else 'lost'}")
        events.delay_s, events.are_lost = (2.0, False) if value < 0.6 else (0.0, True)
        await asyncio.sleep(_LATE_S * value)
        events.delay_s, events.are_lost = 0.0, False

    async def _type(self, target: str, value: float) -> None:
        """A person begins a line, and ends it with Enter or takes it back."""
        world = self._world
        pane = world.programs.running[target].pane
        self._say(f"FAULT a person types into {target}")
        word = f"mine {value:.3f}"
        for letter in word:
            pane.keys_at_s = world.loop.time()
            world.server.put(pane, ("text", letter))
            await asyncio.sleep(0.15)
        await asyncio.sleep(20 * value)
        keys = ["Enter"] if value < 0.5 else ["BSpace"] * len(word)
        for key in keys:
            pane.keys_at_s = world.loop.time()
            world.server.put(pane, ("key", key))
            await asyncio.sleep(0.1)
