"""Sandboxed agents of a fleet: a workspace with containers, and an engine that stops, hangs and starts."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.sim.containers import PlayedImage
from tests.sim.engine import IMAGE, PROGRAMS
from tests.sim.told import Cause, Told
from tests.sim.world import World

WORKSPACE = "shop"
OWNER = 1234
_AWAY_S = 60.0


class Sandboxed:
    """The containers of one world, which must not be in memory."""

    def __init__(self, world: World, told: Told, say: Callable[[str], None]) -> None:
        self._world = world
        self._told = told
        self._say = say

    def begin(self) -> None:
        """Start the engine, and name it in the configuration."""
        world = self._world
        world.home.chmod(0o755)
        if os.geteuid() == 0:  # no container runs as root
            os.chown(world.work, OWNER, OWNER)
        world.engine.images[IMAGE] = PlayedImage("sha256:1", (*PROGRAMS, "agent"))
        world.engine.start()
        with Path(world.paths.config).open("a", encoding="utf-8") as file:
            file.write(f'sandbox: {{engine: "{world.engine.url}", image: "{IMAGE}", network: none}}\n')

    async def greet(self) -> None:
        body = {"slug": WORKSPACE, "working_dir": str(self._world.work), "trust": "sandboxed"}
        await self._world.operator.post("/v1/workspaces", body)

    async def fail(self, value: float) -> None:
        """Let the engine be away for a while."""
        engine, away_s = self._world.engine, 1 + _AWAY_S * (value * 31 % 1)
        if value < 0.6:
            self._expect_ends()
            engine.is_live_restoring = value < 0.2
            self._say(f"FAULT the engine {'is killed' if value < 0.4 else 'stops'}")
            (engine.kill if value < 0.4 else engine.stop)()
            await asyncio.sleep(away_s)
            self._expect_ends()
            engine.start()
        elif value < 0.8 and engine.process is not None:
            self._say("FAULT the engine hangs")
            self._told.servers_lost += 1
            engine.hang()
            await asyncio.sleep(away_s)
            engine.resume()
        elif running := [container for container in engine.containers.values() if container.is_running]:
            self._say("FAULT somebody removes a container")
            self._expect_ends()
            engine.remove(running[0])

    def _expect_ends(self) -> None:
        """Sandboxed agents that run may end without a word of the daemon, and with an unknown exit."""
        self._told.servers_lost += 1
        for runs in self._told.runs.values():
            if runs[-1].process.exit is None and runs[-1].process.place is not None:
                runs[-1].cause = Cause.FAULT

    def heal(self) -> None:
        engine = self._world.engine
        engine.resume()
        if engine.process is None:
            self._expect_ends()
            engine.start()

    def broken(self, db: sqlite3.Connection) -> list[str]:
        """Sandboxed means sandboxed: each process of such a session is in a container, and no other one is."""
        sandboxed = {row[0] for row in db.execute("SELECT id FROM sessions WHERE trust_level = 'sandboxed'")}
        found = [
            f"6: session {session_id} runs in {run.process.place}"
            for session_id, runs in self._told.runs.items()
            for run in runs
            if (run.process.place is not None) is not (session_id in sandboxed)
        ]
        fallen = "SELECT id FROM sessions WHERE trust_level = 'sandboxed' AND effective_mode != 'sandboxed'"
        return found + [f"6: session {row[0]} fell back to the host" for row in db.execute(fallen)]
