"""A receiver of webhooks beside a fleet, which refuses requests from time to time."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

from tests.sim.blocking import run_blocking_on_loop
from tests.sim.network import played_sockets
from tests.sim.receiver import PlayedReceiver
from tests.sim.world import World

_AWAY_S = 40.0


class Webhook:
    """The receiver of one world."""

    def __init__(self, world: World, say: Callable[[str], None], open: ExitStack) -> None:
        self._world = world
        self._say = say
        self._open = open
        self._receiver = PlayedReceiver()
        self._come_back: Callable[[], None] | None = None

    async def begin(self) -> None:
        """Serve, and name the receiver in the configuration."""
        world = self._world

        def serve() -> None:
            self._receiver.serve_world(world)
            self._open.enter_context(played_sockets(world.board, world.loop))

        await run_blocking_on_loop(serve, nullcontext)
        with Path(world.paths.config).open("a", encoding="utf-8") as file:
            file.write(f'notify: {{webhooks: [{{url: "{self._receiver.url()}"}}]}}\n')

    async def fail(self, value: float) -> None:
        if value < 0.5:
            self._say("FAULT the receiver of webhooks refuses requests")
            self._receiver.answers += [500, 503][: 1 + int(value * 4)]
            return
        self._say("FAULT the receiver of webhooks is away")
        self.heal()
        self._come_back = self._world.board.cut_off(self._receiver.address)
        await asyncio.sleep(_AWAY_S * value)
        self.heal()

    def heal(self) -> None:
        if self._come_back is not None:
            self._come_back()
            self._come_back = None

    def broken(self, db: sqlite3.Connection) -> list[str]:
        """Each ending that the operator's inbox tells is posted, under a name of its own for all attempts."""
        posted = {received.delivery for received in self._receiver.got}
        told = "SELECT session_id, occasion FROM notices WHERE kind = 'ending' AND recipient IS NULL"
        return [
            f"3: the end of session {session_id} was not posted: {occasion}"
            for session_id, occasion in db.execute(told)
            if not any(occasion in delivery for delivery in posted)
        ]
