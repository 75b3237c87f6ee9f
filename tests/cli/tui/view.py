"""The view `sm top` in a test: its keys, and the text on its screen."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable

from textual.pilot import Pilot

from sm.board import BoardNeed
from sm.cli.tui.app import TopApp
from sm.cli.tui.kept import KeptChoices
from sm.cli.tui.process import Pace
from sm.client.http import Client
from tests.instance import Instance
from tests.waits import explained, until_async, waiting


class View:
    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    def text(self) -> str:
        """The lines on the screen, as a person sees them."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    def _screen(self) -> str:
        return f"the screen:\n{self.text()}"

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        async def look() -> bool:
            if error := self.app._exception:
                raise AssertionError("the app has ended") from error
            return bool(condition())

        # The hard limit interrupts the event loop, not this coroutine: the screen is a part of the wait's name too.
        with waiting(self._screen), explained(self._screen):
            await until_async(look, what)

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text() for text in texts), f"the screen shows {texts}")

    async def hides(self, text: str) -> None:
        await self.until(lambda: text not in self.text(), f"the screen hides {text}")

    async def end_feed(self) -> None:
        """Let no rows of the daemon replace those of the test."""
        for worker in self.app.workers:
            if worker.name == "feed":
                worker.cancel()
        await self.pilot.pause()

    async def select(self, session_id: str) -> None:
        """Select a session of the list, whose order rests."""
        await self.until(lambda: session_id in [line.row.id for line in self.app.board.lines], "its line")
        self.app.switch(to_needs=False)
        self.app.board.reveal(session_id, time.monotonic())
        self.app.draw()

    async def select_request(self, key: str) -> BoardNeed:
        """Select an open request, and wait until its buttons are alive."""
        await self.until(lambda: self.app.select_need(key), f"{key} needs a person")
        await self.until(lambda: not self.app.needs.guard.is_dead(key, time.monotonic()), "a live button")
        need = self.app.target.need
        assert need is not None
        return need


@contextlib.asynccontextmanager
async def top(
    instance: Instance, size: tuple[int, int] = (100, 30), kept: KeptChoices | None = None
) -> AsyncIterator[View]:
    """`sm top` on a screen of that size. Its list takes its order anew with every change, and notices stay."""
    app = TopApp(Client(str(instance.socket)), Pace(rest_s=0.0, notice_s=3600, undo_s=3600), kept)
    async with app.run_test(size=size) as pilot:
        view = View(app, pilot)
        await view.shows("sm top", "NAME" if size[1] >= 12 else "sm top")
        yield view
