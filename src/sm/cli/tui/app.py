"""The application of `sm top`: its list, its keys and its actions."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events

from sm.cli.tui import texts
from sm.cli.tui.board_app import BoardApp
from sm.cli.tui.kept import KeptChoices
from sm.cli.tui.process import STARTED_S, Pace
from sm.cli.tui.source import ThreadedSource
from sm.client.http import Client

if TYPE_CHECKING:
    from sm.cli.tui.runner import ActionRunner


class TopApp(BoardApp):
    def __init__(
        self,
        client: Client,
        pace: Pace | None = None,
        kept: KeptChoices | None = None,
        *,
        source: ThreadedSource | None = None,
        started: Callable[[], object] = lambda: None,
    ) -> None:
        """`started`: called once the first rows are there."""
        super().__init__(client, pace, kept, source)
        self._client = client
        self._started = started
        self._loaded_runner: ActionRunner | None = None

    def on_mount(self) -> None:
        self.set_timer(STARTED_S, self._complete_start)

    def _complete_start(self) -> None:
        _ = self._runner
        self._started()

    @property
    def _runner(self) -> "ActionRunner":
        """Loaded after the first rows, or at the first key: its pages and forms take a sixth of the start."""
        if self._loaded_runner is None:
            from sm.cli.tui.runner import ActionRunner

            self._loaded_runner = ActionRunner(self, self._client)
        return self._loaded_runner

    def undo_text(self, clock_s: float) -> str:
        return "" if self._loaded_runner is None else self._loaded_runner.undo_text(clock_s)

    def tell_who_was_faster(self, key: str) -> None:
        self._runner.tell_who_was_faster(key)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.MouseDown):
            self._touched_s = time.monotonic()
        # Here and not in `on_key`, which later keys would pass before this one has opened its prompt.
        if isinstance(event, events.Key) and len(self.screen_stack) == 1 and self._press(event):
            return
        await super().on_event(event)

    def _press(self, event: events.Key) -> bool:
        from sm.cli.tui import keyboard

        if self.filter_field.is_open and event.key not in ("up", "down", "pageup", "pagedown"):
            return self.filter_field.press(event)
        key = event.character if event.character is not None and event.is_printable else event.key
        if not keyboard.press(self, self._runner, key):
            return False
        self.draw()
        return True

    def on_click(self, event: events.Click) -> None:
        if event.widget is not None and event.widget.id == "chips" and len(self.screen_stack) == 1:
            slug = texts.chip_at(self._shown_chips, event.x)
            if slug == texts.NEW_WORKSPACE:
                self._runner.act("workspace")
            elif slug is not None:
                self.choose(slug or None)
            self.draw()
