"""The rows of a live view on a played stage: `board` of tests/live_board.py, in a played process."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sm.client import live_stream
from sm.client.http import Client
from tests.live_board import LiveBoard
from tests.sim.blocking import Interruption, run_blocking_on_loop
from tests.sim.command import Completed, RunningCommand, Streams
from tests.sim.stage import Instance, until


class _Reader(RunningCommand):
    """A process that follows live updates."""

    shown: LiveBoard
    updates: Iterator[live_stream.Json]

    def code(self) -> Completed:
        self.shown.follow(self.updates)
        return subprocess.CompletedProcess(["live"], 0, "", "")

    async def run(self) -> Completed:
        try:
            return await run_blocking_on_loop(self.code, self.surroundings)
        finally:
            self.end()


@contextmanager
def board(
    instance: Instance, env: Mapping[str, str] | None = None, *, socket: object = None, **options: Any
) -> Iterator[LiveBoard]:
    """A board after its first update, of the session that `env` identifies, without `env` of the operator.

    `socket`: the path of the socket, by default that of the operator. `options`: of `live.updates`.
    """
    world, sockets = instance.world, instance.command.sockets
    environ = {**instance.env, **(env or {})}
    reader = _Reader(world, sockets, [], environ, instance.work, Streams(), world.shell.pid)
    reader.shown = LiveBoard(until)
    reader.updates = live_stream.updates(Client(str(socket or instance.socket)), **options)
    running = instance.command.begin(reader.run(), Interruption())
    until(lambda: reader.shown.updates or running.poll() is not None, "the first update")
    try:
        yield reader.shown
    finally:
        running.kill()
        instance.wait(0)
