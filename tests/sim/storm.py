"""Plays one script of a fleet on the daemon, and checks the promises at each settled point."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace

from sm.errors import SmError
from tests.sim.acts import Acts
from tests.sim.blocking import run_blocking_on_loop
from tests.sim.claude import Habits, PlayedClaude
from tests.sim.company import Company
from tests.sim.faults import Faults
from tests.sim.fleet import Act, Entry, Fault, config_of
from tests.sim.loop import BEGIN_S, VirtualLoop
from tests.sim.memory import memory_of
from tests.sim.parts import Part, parts_of
from tests.sim.programs import Running
from tests.sim.promises import broken
from tests.sim.told import Cause, Told
from tests.sim.world import World, simulation

_AWAY_S = 1.0
_SETTLED_WITHIN_S = 900.0


class Storm:
    """One run. `trace` tells what happened; `broken` what must not have happened."""

    def __init__(self, seed: int, entries: Sequence[Entry]) -> None:
        self._seed = seed
        self._entries = entries
        self.trace: list[str] = []
        self.broken: list[str] = []
        self.virtual_s = 0.0
        self._told = Told()
        self._read_letters: set[int] = set()
        self._acting: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._late_s = 0.0
        """How long the script has stood still at settled points."""
        self._world: World
        self._acts: Acts
        self._faults: Faults
        self._company: Company

    @property
    def turns(self) -> int:
        return self._told.journal.turns

    def _say(self, text: str) -> None:
        text = text.replace(str(self._world.home), "~")  # it differs from run to run
        self.trace.append(f"{self._world.loop.time() - BEGIN_S:9.3f} {text}")

    async def run(self) -> None:
        settings, parts = config_of(self._seed), parts_of(self._seed)
        in_memory = Part.SANDBOXES not in parts
        async with simulation(settings, seed=self._seed, starts=False, in_memory=in_memory) as world:
            self._world, open = world, ExitStack()
            world.daemon_options = replace(world.daemon_options, memory=memory_of(self._seed))
            try:
                self._company = Company(world, parts, self._told, self._say, open)
                self._acts = Acts(world, self._told, self._say, self._start_daemon, self._company)
                self._faults = Faults(
                    world, self._told, self._say, self._start_daemon, self._seed, self._company
                )
                self._told.journal.heard = self._hear
                world.programs.installed |= {"agent": self._agent, "stand-in": self._claude}
                if parts:
                    self._say(f"with {', '.join(sorted(parts))}")
                await self._play_all()
            finally:  # which lets the world go on
                await run_blocking_on_loop(open.close, nullcontext)

    async def _play_all(self) -> None:
        world = self._world
        await self._company.begin(self._seed)
        await world.start()
        await self._company.greet()
        self._late_s = world.loop.time() - BEGIN_S
        await self._play()
        await asyncio.sleep(30)
        await self._settle("the end")
        self.virtual_s = world.loop.time() - BEGIN_S
        if not self.broken:  # once more from the files alone
            world.daemon.drop()
            await self._settle("another start")

    async def _play(self) -> None:
        for entry in self._entries:
            await self._wait_until(entry.at_s)
            if entry.act is Act.SETTLE:
                before_s = self._world.loop.time()
                await self._settle(f"{entry.at_s:g} s")
                if self.broken:
                    return
                self._late_s += self._world.loop.time() - before_s
                continue
            task = self._world.loop.create_task(self._perform(entry))
            self._acting.add(task)
            task.add_done_callback(self._acting.discard)

    async def _perform(self, entry: Entry) -> None:
        if isinstance(entry.act, Fault):
            await self._faults.carry_out(entry, self._acts.find(entry.target))
        else:
            await self._acts.perform(entry)

    async def _wait_until(self, at_s: float) -> None:
        left_s = BEGIN_S + at_s + self._late_s - self._world.loop.time()
        if left_s > 0:
            await asyncio.sleep(left_s)

    async def _settle(self, when: str) -> None:
        """Wait until nobody acts and the daemon has settled, and check the promises."""
        world = self._world
        if self._acting:
            await asyncio.wait(self._acting, timeout=300)
        world.server.is_deaf = world.disk.is_full = False
        world.forget_drops()
        self._company.heal()
        await self._start_daemon()
        try:
            await world.settled(_SETTLED_WITHIN_S)
        except AssertionError as error:
            self.broken.append(f"not settled: {error}")
        found = await broken(world, self._told)
        found += await self._company.broken()
        self.broken += [f"{text} (at {when})" for text in found]

    async def _start_daemon(self) -> None:
        async with self._starting:
            while not self._world.daemon.is_running:
                try:
                    await self._world.start()
                except (SmError, OSError) as error:
                    self._say(f"the daemon does not start: {error}")
                    await asyncio.sleep(_AWAY_S)

    # Agents

    def _last_event(self) -> int:
        return self._world.store.last_seq

    async def _claude(self, program: Running) -> int:
        session_id = program.session_id
        self._told.begin_run(session_id, program.process, "claude", self._last_event)
        runs = len(self._told.runs[session_id])
        chance = random.Random(f"{self._seed} {session_id} {runs}")
        habits = Habits(fault=self._faults.hook)
        played = PlayedClaude(program, self._world.clocks, chance, habits, self._told.journal)
        self._acts.claudes[session_id] = played
        return await played.run()

    async def _agent(self, program: Running) -> int:
        """An agent that keeps what it hears until it is told to end."""
        run = self._told.begin_run(program.session_id, program.process, "command", self._last_event)
        end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._acts.exits[program.session_id] = end
        listening = asyncio.create_task(
            self._read(program) if program.argv[1] == "tty" else self._take(program)
        )
        try:
            code = await end
            run.cause = Cause.ITSELF
            return code
        finally:
            listening.cancel()

    async def _read(self, program: Running) -> None:
        while True:
            self._hear(program.session_id, await program.read_line())

    async def _take(self, program: Running) -> None:
        """Read the letters as `sm inbox --take` shows them: first shown, then confirmed, so perhaps shown again."""
        while True:
            try:
                taken = await program.sm.post("/v1/inbox/take", {"wait_s": 60})
                for letter in taken:
                    if letter["message_id"] not in self._read_letters:
                        self._read_letters.add(letter["message_id"])
                        self._hear(program.session_id, str(letter["text"]))
                ids = [letter["message_id"] for letter in taken]
                if ids:
                    await program.sm.post("/v1/inbox/confirm", {"message_ids": ids})
            except SmError:
                await asyncio.sleep(1)

    def _hear(self, session_id: str, line: str) -> None:
        """Keep the text of a message without the words around it."""
        at = line.find("tag")
        if at >= 0:
            self._told.heard.setdefault(session_id, []).append(line[at:].split("\n")[0].strip())


def play(seed: int, entries: Sequence[Entry]) -> Storm:
    """Play a script to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        storm = Storm(seed, entries)
        try:
            runner.run(storm.run())
        except AssertionError as error:
            storm.broken.append(str(error)[:2000])
        return storm
