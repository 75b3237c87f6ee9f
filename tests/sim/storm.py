"""Plays one script of a fleet on the daemon, and checks the promises at each settled point."""

import asyncio
from collections.abc import Sequence

from sm.client.http import DaemonAway, new_key
from sm.errors import SmError
from tests.sim.fleet import TYPES, Act, Entry, Fault
from tests.sim.loop import BEGIN_S, VirtualLoop
from tests.sim.programs import Running
from tests.sim.promises import Told, broken
from tests.sim.wire import Caller
from tests.sim.world import World, simulation

CONFIG = """
default_trust: direct
limits: {spawn_interval_s: 0}
commands:
  Tty: {command: [agent, tty], prompt: file, input: tty}
  Inbox: {command: [agent, inbox], prompt: file, input: inbox}
"""
_AWAY_S = 0.5
_DEAF_S = 20.0
_SETTLED_WITHIN_S = 600.0


class Storm:
    """One run. `trace` tells what happened; `broken` what must not have happened."""

    def __init__(self, seed: int, entries: Sequence[Entry]) -> None:
        self._seed = seed
        self._entries = entries
        self.trace: list[str] = []
        self.broken: list[str] = []
        self.virtual_s = 0.0
        self._world: World
        self._told = Told()
        self._exits: dict[str, asyncio.Future[int]] = {}
        self._read_letters: set[int] = set()
        self._tags = 0
        self._acting: set[asyncio.Task[None]] = set()
        self._starting, self._dropping = asyncio.Lock(), asyncio.Lock()

    def _say(self, text: str) -> None:
        self.trace.append(f"{self._world.loop.time() - BEGIN_S:9.3f} {text}")

    async def run(self) -> None:
        async with simulation(CONFIG, seed=self._seed) as world:
            self._world = world
            world.programs.installed["agent"] = self._agent
            for entry in self._entries:
                await self._wait_until(entry.at_s)
                task = world.loop.create_task(self._perform(entry))
                self._acting.add(task)
                task.add_done_callback(self._acting.discard)
            await asyncio.sleep(30)
            await self._settle()
            self.virtual_s = world.loop.time() - BEGIN_S
            if not self.broken:  # once more from the files alone
                world.daemon.drop()
                await world.start()
                await self._settle()

    async def _wait_until(self, at_s: float) -> None:
        left_s = BEGIN_S + at_s - self._world.loop.time()
        if left_s > 0:
            await asyncio.sleep(left_s)

    async def _settle(self) -> None:
        if self._acting:
            await asyncio.wait(self._acting, timeout=300)
        self._world.server.is_deaf = False
        try:
            await self._world.settled(_SETTLED_WITHIN_S)
        except AssertionError as error:
            self.broken.append(f"not settled: {error}")
        self.broken += broken(self._world, self._told)

    # Agents

    async def _agent(self, program: Running) -> int:
        """An agent that keeps what it hears until it is told to end."""
        end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._exits[program.session_id] = end
        listening = asyncio.create_task(
            self._read(program) if program.argv[1] == "tty" else self._take(program)
        )
        try:
            return await end
        finally:
            listening.cancel()

    async def _read(self, program: Running) -> None:
        while True:
            line = await program.read_line()
            self._hear(program.session_id, line)

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

    # Acts

    def _find(self, number: int) -> str | None:
        return self._told.spawned[number % len(self._told.spawned)] if self._told.spawned else None

    def _caller(self, number: int) -> tuple[str, Caller]:
        session_id = None if number < 0 else self._find(number)
        program = None if session_id is None else self._world.programs.running.get(session_id)
        if session_id is None or program is None or program.process.exit is not None:
            return "operator", self._world.operator
        return session_id, program.sm

    async def _perform(self, entry: Entry) -> None:
        try:
            await self._carry_out(entry)
        except SmError as error:
            self._say(f"{entry.act} refused: {error.message[:120]}")

    async def _post(self, caller: Caller, path: str, body: dict[str, object]) -> object:
        """Send a request, and repeat it with its key while the daemon is away, as `sm` does."""
        key = new_key()
        while True:
            try:
                return await caller.post(path, body, key=key)
            except DaemonAway:
                await asyncio.sleep(_AWAY_S)
                await self._start_daemon()

    async def _start_daemon(self) -> None:
        async with self._starting:
            if not self._world.daemon.is_running:
                await self._world.start()

    async def _carry_out(self, entry: Entry) -> None:
        world = self._world
        name, caller = self._caller(entry.actor)
        target = self._find(entry.target)
        match entry.act:
            case Act.SPAWN:
                kind = TYPES[int(entry.value * len(TYPES))]
                body = {"agent_type": kind, "prompt": "work", "cwd": str(world.work)}
                if name == "operator":
                    body["environment"] = dict(world.environ)  # type: ignore[assignment]
                answer = await self._post(caller, "/v1/sessions", body)  # type: ignore[arg-type]
                self._told.spawned.append(answer["session_id"])  # type: ignore[index]
                self._say(f"{name} spawned {kind} {self._told.spawned[-1]}")
            case Act.SEND if target is not None:
                self._tags += 1
                tag = f"tag{self._tags} to {target}"
                await self._post(caller, "/v1/messages", {"to": target, "text": tag, "answer": "message"})
                self._told.sent.append(tag)
                self._say(f"{name} sent {tag}")
            case Act.ASK if name != "operator":
                request = await self._post(
                    caller, "/v1/requests", {"question": "which?", "options": ["a", "b"]}
                )
                self._say(f"{name} asked {request['request_id']}")  # type: ignore[index]
                await asyncio.sleep(60 * entry.value)
                path = f"/v1/requests/{request['request_id']}/answer"  # type: ignore[index]
                await self._post(world.operator, path, {"answers": ["1"]})
                self._say(f"operator answered {request['request_id']}")  # type: ignore[index]
            case Act.NOTE if name != "operator":
                await self._post(caller, "/v1/sessions/me/note", {"text": f"note {entry.value:.3f}"})
            case Act.COMPLETE if name != "operator":
                await self._post(caller, "/v1/sessions/me/complete", {"message": "done"})
                self._say(f"{name} completed")
            case Act.EXIT if target in self._exits and not self._exits[target].done():
                self._exits[target].set_result(int(entry.value * 4))
                self._say(f"{target} exits with {int(entry.value * 4)}")
            case Act.KILL | Act.PAUSE | Act.RESUME | Act.RESTORE if target is not None:
                body = {"for_s": 60.0, "wait_s": 0} if entry.act is Act.PAUSE else {}  # type: ignore[dict-item]
                await self._post(world.operator, f"/v1/sessions/{target}/{entry.act}", body)  # type: ignore[arg-type]
                self._say(f"operator ordered {entry.act} of {target}")
            case Act.OVERSTEP if target is not None and name != "operator":
                if not await self._is_below(target, name):
                    await self._post(caller, f"/v1/sessions/{target}/kill", {})
                    self._told.overstepped.append(f"{name} killed {target}")
            case Fault.DROP:
                steps = 1 + int(400 * entry.value**3)
                self._say(f"FAULT drop after {steps} steps")
                async with self._dropping:
                    await self._start_daemon()
                    await world.drop_after(steps)
                    await asyncio.sleep(1 + 10 * entry.value)
                    await self._start_daemon()
            case Fault.PROCESS if target in world.programs.running:
                self._say(f"FAULT SIGKILL of {target}")
                world.kernel.signal(world.programs.running[target].process, 9)
            case Fault.SERVER:
                self._say("FAULT the terminal server ends")
                world.server.kill()
            case Fault.DEAF:
                self._say("FAULT the terminal server is deaf")
                world.server.is_deaf = True
                await asyncio.sleep(_DEAF_S * entry.value)
                world.server.is_deaf = False
            case Fault.CLOCK:
                by_s = (entry.value - 0.5) * 240
                self._say(f"FAULT the clock steps by {by_s:.0f} s")
                world.clocks.step(by_s)
            case _:
                pass

    async def _is_below(self, session_id: str, above: str) -> bool:
        sessions = self._world.daemon.store.sessions
        at: str | None = session_id
        while at is not None and at in sessions:
            if at == above:
                return True
            at = sessions[at].parent_id
        return False


def play(seed: int, entries: Sequence[Entry]) -> Storm:
    """Play a script to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        storm = Storm(seed, entries)
        try:
            runner.run(storm.run())
        except AssertionError as error:
            storm.broken.append(str(error)[:2000])
        return storm
