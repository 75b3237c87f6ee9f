"""The visible screens of terminals, captured while somebody looks, once for all who look at the same one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from sm.core.dataclass import dataclass
from sm.core.styled_text import Run, styled_runs
from sm.errors import ExternalError, NoServer, NoTerminal
from sm.store.change_signal import ChangeSignal
from sm.terminals.base import Screen

log = logging.getLogger(__name__)

_EVERY_S = 0.25
_PAUSE_AFTER_FAILURE_S = 5.0


@dataclass(frozen=True, slots=True)
class ScreenRow:
    row: int
    """From the top, beginning at 0."""
    runs: tuple[Run, ...]


class LiveScreen:
    """One terminal. Only the newest screen is kept, with the number of the capture that changed each row last."""

    def __init__(self, terminals: Screen, name: str) -> None:
        self._terminals = terminals
        self._name = name
        self._lines: list[str] = []
        self._rows: list[tuple[Run, ...]] = []
        self._changed_in: list[int] = []
        self._signal = ChangeSignal()
        self.number = 0
        """The number of the newest capture with a change."""
        self.is_over = False
        """The terminal is closed, or its process has ended."""
        self.lookers = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def height(self) -> int:
        return len(self._rows)

    def rows(self, since: int) -> list[ScreenRow]:
        """The rows that have changed after the capture `since`."""
        changed = enumerate(zip(self._rows, self._changed_in, strict=True))
        return [ScreenRow(row, runs) for row, (runs, number) in changed if number > since]

    async def wait_until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every change. Returns False if that timed out."""
        return await self._signal.wait_until(condition, within_s)

    async def capture(self) -> None:
        """Raises NoTerminal, NoServer, TerminalUnreachable."""
        lines = await self._terminals.capture_styled(self._name)
        if lines == self._lines:
            return
        rows, before, self.number = styled_runs(lines), self._rows, self.number + 1
        self._changed_in = [
            self._changed_in[row] if row < len(before) and before[row] == runs else self.number
            for row, runs in enumerate(rows)
        ]
        self._lines, self._rows = lines, rows
        self._signal.changed()

    async def follow(self) -> None:
        """Capture the screen until the terminal is gone. A terminal server that does not answer is asked again."""
        while not self.is_over:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.capture()
            except (NoTerminal, NoServer):
                self.is_over = True
                self._signal.changed()
            except ExternalError:
                pass
            except Exception:
                # A defect must not leave those who look with an old screen and no word.
                log.exception("failed to capture a screen")
                await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)


class LiveScreens:
    """All screens at which somebody looks."""

    def __init__(self, terminals: Screen) -> None:
        self._terminals = terminals
        self._screens: dict[str, LiveScreen] = {}

    async def attach_command(self, name: str) -> Sequence[str]:
        """The command that shows terminal `name` to a person. Raises NoTerminal, or as `LiveScreen.capture`."""
        await self._terminals.capture(name, 1)
        return self._terminals.attach_command(name)

    @asynccontextmanager
    async def looking(self, name: str) -> AsyncIterator[LiveScreen]:
        """Capture terminal `name` for the duration of the block. Raises as `LiveScreen.capture`."""
        screen = self._screens.get(name)
        if screen is None or screen.is_over:
            screen = self._screens[name] = LiveScreen(self._terminals, name)
        screen.lookers += 1
        try:
            if not screen.number:
                await screen.capture()
            if screen.task is None:
                screen.task = asyncio.create_task(screen.follow(), name=f"screen {name}")
            yield screen
        finally:
            screen.lookers -= 1
            if not screen.lookers:
                if screen.task is not None:
                    screen.task.cancel()
                if self._screens.get(name) is screen:
                    del self._screens[name]
