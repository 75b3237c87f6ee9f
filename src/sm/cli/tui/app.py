"""The application of `sm top`: its list, its keys and its actions."""

import time

from textual import events

from sm.cli.tui import keyboard, texts
from sm.cli.tui.board_app import BoardApp, Pace
from sm.cli.tui.kept import KeptChoices
from sm.cli.tui.runner import ActionRunner
from sm.client.http import Client


class TopApp(BoardApp):
    def __init__(self, client: Client, pace: Pace | None = None, kept: KeptChoices | None = None) -> None:
        super().__init__(client, pace, kept)
        self._runner = ActionRunner(self, client)

    def undo_text(self, clock_s: float) -> str:
        return self._runner.undo_text(clock_s)

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
