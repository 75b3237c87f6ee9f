"""Follows config.yaml and rules.yaml while the daemon runs, and applies a change of them.

The daemon looks at the file when the kernel reports a change, and also regularly: no event reports a change on every
file system. A file with mistakes, an empty file and a missing file change nothing: an editor or a full disk leaves such
files behind.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from sm.config import ConfigChanges, LoadedConfig, Stamp, load, stamp_of
from sm.config.changes import ConfigState
from sm.errors import ConfigError, StorageFull
from sm.monitor.files import FileEvents

log = logging.getLogger(__name__)

_EVERY_S = 1.4
"""How often to look at the file without an event. With _SETTLE_S and the read, a change applies within 2 s."""
_SETTLE_S = 0.2
"""How long a file must stay the same before it is read: many editors write a file in several steps."""


class ConfigFile:
    """`apply`: applies a configuration without mistakes. It may raise ConfigError."""

    def __init__(
        self, path: str, loaded: LoadedConfig, apply: Callable[[LoadedConfig], Awaitable[ConfigChanges]]
    ) -> None:
        self._path = path
        self._apply = apply
        self._warnings = loaded.warnings
        self._read = loaded.files
        """The stamps of config.yaml, and of the files that belong to it, when they were read last."""
        self._seen = self._read
        """The stamps at the last look."""
        self._exists = loaded.files.get(path) is not None
        """The configuration that applies comes from config.yaml, not from the defaults."""
        self._is_unfinished = False
        """The disk was full: the next look applies the file again."""
        self._state = ConfigState(path)
        self._changed = asyncio.Event()
        self._one = asyncio.Lock()

    @property
    def warnings(self) -> Sequence[str]:
        """The warnings about the file that was applied last."""
        return self._warnings

    @property
    def state(self) -> ConfigState:
        return self._state

    async def run(self) -> None:
        """Apply each change of the file. Never returns."""
        events = FileEvents()
        try:
            events.listen(self._path, "", self._changed.set)
            while True:
                await self._wait()
                try:
                    await self._look()
                except Exception:
                    log.exception("failed to apply %s", self._path)
        finally:
            events.close()

    async def _wait(self) -> None:
        if self._seen != self._read:
            await asyncio.sleep(_SETTLE_S)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._changed.wait()
        self._changed.clear()

    async def _look(self) -> None:
        """Read files that have changed since they were read, but not since the last look."""
        before, self._seen = self._seen, self._stamps()
        if self._seen == before and (self._seen != self._read or self._is_unfinished):
            await self.read_now()

    async def read_now(self) -> ConfigState:
        """Read files that have changed since they were read, and return their state."""
        async with self._one:
            stamps = self._stamps()
            if stamps != self._read or self._is_unfinished:
                self._read = self._seen = stamps
                problem = self._problem(stamps[self._path]) or await self._read_file()
                if problem is not None and problem != self._state.problem:
                    log.warning("the configuration was not applied: %s", problem)
                self._state = replace(self._state, problem=problem)
            return self._state

    async def _read_file(self) -> str | None:
        """Read and apply the file. Returns the mistakes, or the trouble, that prevent it."""
        self._is_unfinished = False
        try:
            loaded = await asyncio.to_thread(load, self._path)
            changes = await self._apply(loaded)
        except ConfigError as error:
            return error.message
        except StorageFull as error:
            self._is_unfinished = True
            return f"the budgets wait until the disk has room: {error.message}"
        self._warnings = loaded.warnings
        self._read = self._seen = loaded.files
        self._exists = loaded.files[self._path] is not None
        if changes.taken:
            log.info("applied %s: %s", self._path, ", ".join(changes.taken))
        if changes.waiting and changes.waiting != self._state.waiting:
            log.warning("only a restart applies the change of %s", ", ".join(changes.waiting))
        self._state = replace(self._state, waiting=changes.waiting)
        return None

    def _problem(self, stamp: Stamp | None) -> str | None:
        """The reason not to read the file: it is gone or empty. Without a file from the start, the defaults apply."""
        if stamp is None:
            return f"{self._path} is missing or cannot be read" if self._exists else None
        return f"{self._path} is empty" if stamp.size == 0 else None

    def _stamps(self) -> dict[str, Stamp | None]:
        return {path: stamp_of(path) for path in self._read}
