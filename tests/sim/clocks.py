"""The clocks and random numbers of a simulation, which the modules of sm get in place of `time`, `secrets`, `uuid`.

Parts with a clock of their own get it from the simulation. Everything else that reads the time is found here.
"""

import asyncio
import builtins
import gc
import importlib
import os
import random
import secrets
import select
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from types import ModuleType
from typing import Any

from tests.sim.blocking import drive
from tests.sim.loop import VirtualLoop
from tests.sim.replacing import replaced
from tests.sim.waiting import BlockingPoll

BEGIN_S = 1_795_813_200.0
"""2026-11-27 21:00 UTC, in seconds since the epoch."""


class Clocks:
    """Both clocks. `step` moves the wall clock as a person or NTP does; nobody moves the steady one."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._offset_s = BEGIN_S - loop.time()

    def wall(self) -> float:
        return self._loop.time() + self._offset_s

    def steady(self) -> float:
        return self._loop.time()

    def sleep(self, pause_s: float) -> None:
        """Let the time pass for code that blocks. Code on the loop must not block."""
        drive(self._loop, asyncio.sleep(pause_s))

    def step(self, by_s: float) -> None:
        self._offset_s += by_s


class _Stand:
    """Stands for a module: some functions are played, the others are its own."""

    def __init__(self, module: ModuleType, **played: Any) -> None:
        self._module = module
        self.__dict__.update(played)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _datetimes(clocks: Clocks) -> type[datetime]:
    """`datetime` whose present is that of the simulation."""

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    class PlayedDatetime(datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(clocks.wall(), tz)

    return PlayedDatetime


_PLAYED = (time, select, secrets, uuid, datetime, gc)
_NAMES = frozenset(played.__name__ for played in _PLAYED)
_clocks_of: dict[str, tuple[ModuleType, int, tuple[str, ...]]] = {}
"""The attributes of each module of sm that may be one of `_PLAYED`, and how many attributes it had in all."""
_others: set[str] = set()
"""The names of loaded modules that are not of sm."""


def _clocked(name: str, module: ModuleType) -> tuple[str, ...]:
    """The attributes of a loaded module that may be one of `_PLAYED`."""
    values = vars(module)
    found = tuple(
        attribute
        for attribute, value in values.items()
        if attribute in _NAMES or any(value is played for played in _PLAYED)
    )
    _clocks_of[name] = module, len(values), found
    return found


class PlayedModules:
    """Replaces `time`, `select`, `secrets`, `uuid`, `gc` and the class `datetime` in all loaded modules of sm."""

    def __init__(self, clocks: Clocks, seed: int) -> None:
        chance = random.Random(seed)
        self.urandom = chance.randbytes
        """Takes the place of `os.urandom`."""
        self._stands: dict[object, object] = {
            time: _Stand(
                time,
                time=clocks.wall,
                time_ns=lambda: int(clocks.wall() * 1e9),
                monotonic=clocks.steady,
                monotonic_ns=lambda: int(clocks.steady() * 1e9),
                clock_gettime=lambda _: clocks.steady(),
                sleep=clocks.sleep,
            ),
            select: _Stand(select, poll=lambda: BlockingPoll(clocks.sleep)),
            secrets: _Stand(
                secrets,
                token_hex=lambda size=32: chance.randbytes(size).hex(),
                token_bytes=lambda size=32: chance.randbytes(size),
            ),
            uuid: _Stand(uuid, uuid4=lambda: uuid.UUID(bytes=chance.randbytes(16), version=4)),
            datetime: _datetimes(clocks),
            gc: _Stand(
                gc, freeze=lambda: None
            ),  # the process goes on after the daemon, and would keep all it left
        }
        self._replaced: list[tuple[ModuleType, str, object]] = []
        self._loaded = 0
        self._seen: set[str] = set()
        """The names of the modules that are replaced, or need not be."""
        self._begun: set[str] = set()
        """The modules whose code still ran at the last call."""

    def cover(self) -> None:
        """Replace the modules also where sm has imported them since the last call."""
        if len(sys.modules) != self._loaded:
            self._loaded = len(sys.modules)
            new = sys.modules.keys() - self._seen
            self._seen |= new
            self._begun |= (ours := {name for name in new if name.startswith("sm.")})
            _others.update(new - ours)
        if self._begun:
            begun, self._begun = self._begun, set()
            for name in begun & sys.modules.keys():
                self._cover(name, sys.modules[name])

    def _cover(self, name: str, module: ModuleType) -> None:
        if getattr(module.__spec__, "_initializing", False):
            self._begun.add(name)
            self._replace(module, vars(module))
        else:
            self._replace(module, _clocked(name, module))

    def _cover_known(self) -> None:
        """Replace the modules where an earlier world has found them: to look at all takes 8 ms in each world."""
        self._seen |= _others
        for name, (module, count, attributes) in _clocks_of.items():
            if sys.modules.get(name) is module and len(vars(module)) == count:
                self._seen.add(name)
                self._replace(module, attributes)

    def _replace(self, module: ModuleType, attributes: Iterable[str]) -> None:
        for attribute in tuple(attributes):
            value = vars(module).get(attribute)
            stand = self._stands.get(value) if isinstance(value, (ModuleType, type)) else None
            if stand is not None:
                setattr(module, attribute, stand)
                self._replaced.append((module, attribute, value))

    def _importing(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """`load`, after which the loaded module has no real clock: code would compare its time with a played one."""

        def load_and_cover(name: str, *arguments: Any, **more: Any) -> Any:
            module = load(name, *arguments, **more)
            if self._begun or len(sys.modules) != self._loaded:
                self.cover()
            return module

        return load_and_cover

    @contextmanager
    def covered(self) -> Iterator[None]:
        self._cover_known()
        self.cover()
        try:
            with replaced(
                (os, "urandom", self.urandom),
                (builtins, "__import__", self._importing(builtins.__import__)),
                (importlib, "import_module", self._importing(importlib.import_module)),
            ):
                yield
        finally:
            for module, attribute, value in self._replaced:
                setattr(module, attribute, value)
            self._replaced.clear()
