"""The Bot API server of the tests on virtual time: the code of tests/telegram_api without its thread and socket."""

import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Self, TypeVar

import httpcore

from tests.sim.clocks import BEGIN_S
from tests.sim.network import played_network, serve
from tests.sim.stage import Instance, until
from tests.sim.world import World
from tests.telegram_api import TelegramApi

T = TypeVar("T")

_ADDRESS = "127.0.0.1:8081"
_WITHIN_S = 200.0
"""Longer than the longest pause of the bot between two calls."""

# httpcore imports this module at each request. Python remembers only here that a module is missing.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]


class PlayedTelegramApi(TelegramApi):
    """Serves the daemons of one instance, from `serve` on. Before that, people may act already."""

    address = _ADDRESS

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        super().__init__(now or self._played_now)
        self.url = f"http://{_ADDRESS}"
        self._instance: Instance | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End with the instance."""

    def serve(self, instance: Instance) -> None:
        """Answer the daemons that the instance starts from now on, until its end."""
        self._instance = instance
        self.serve_world(instance.world, instance.enter)

    def serve_world(self, world: World, enter: Callable[[AbstractContextManager[None]], None]) -> None:
        """Answer the daemons of a world from now on, until the context that `enter` gets has ended."""
        self._loop = world.loop
        serve(world.board, world.loop, self.app(), self.address)
        enter(played_network(world.board, world.shell.pid, httpcore))

    def wait_for(self, found: Callable[[], T | Literal[False] | None], what: str) -> T:
        """Let time pass until the result of `found` is true, and return it."""
        try:
            return until(found, what, _WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; calls: {self.story()}") from None

    def wake(self) -> None:
        self._news.set()

    def _played_now(self) -> float:
        return BEGIN_S if self._instance is None else self._instance.world.clocks.wall()
