"""A receiver of webhooks on virtual time: `Receiver` of tests/notifiers/receiver.py without its threads."""

import asyncio
from typing import Self

from aiohttp import web

from tests.notifiers.receiver import Received
from tests.sim.network import serve
from tests.sim.stage import Instance
from tests.sim.world import World


class PlayedReceiver:
    """Answers with the statuses of `answers` in order, then with `answer`. After `hang` only from `go_on` on."""

    def __init__(self, port: int = 8000, *, answer: int = 204) -> None:
        self.got: list[Received] = []
        self.answers: list[int] = []
        self.answer = answer
        self._port = port
        self._go_on = asyncio.Event()
        self._go_on.set()

    def url(self, path: str = "/hook") -> str:
        return f"http://{self.address}{path}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def hang(self) -> None:
        self._go_on.clear()

    def go_on(self) -> None:
        self._go_on.set()

    def serve(self, instance: Instance) -> Self:
        """Receive what the daemons of the instance send from now on."""
        self.serve_world(instance.world)
        return self

    def serve_world(self, world: World) -> None:
        """Receive what the daemons of a world send from now on."""
        app = web.Application()
        app.router.add_route("*", "/{path}", self._receive)
        serve(world.board, world.loop, app, self.address)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        self.got.append(Received(request.path, dict(request.headers), await request.read()))
        await self._go_on.wait()
        return web.Response(status=self.answers.pop(0) if self.answers else self.answer)
