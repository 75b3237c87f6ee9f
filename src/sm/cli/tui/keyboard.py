"""The keys of `sm top` outside of its pages and prompts."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sm.board import KEYS, Sort
from sm.cli.tui import texts
from sm.cli.tui.pages import FollowPage
from sm.cli.tui.runner import ACTION_KEYS
from sm.cli.tui.screens import LinePrompt, TextPage

if TYPE_CHECKING:
    from sm.cli.tui.app import TopApp

_FAR = 10**9


def press(app: "TopApp", key: str) -> bool:
    """Carry out what the key means; False: it has no meaning."""
    if len(key) == 1 and key in "0123456789":
        _press_digit(app, int(key))
    elif key in ACTION_KEYS:
        app.runner.act(ACTION_KEYS[key])
    elif key in _VIEW_KEYS:
        _VIEW_KEYS[key](app)
    else:
        return False
    return True


def _press_digit(app: "TopApp", digit: int) -> None:
    """Answer the selected question with an option; otherwise choose a workspace."""
    request = app.target.request
    if digit > 0 and request is not None and request["kind"] == "question" and request["options"]:
        app.runner.answer_with(digit, app.target)
        return
    found = next((chip for chip in app.chips if chip.key == str(digit)), None)
    if found is not None:
        app.choose(found.slug)


def _escape(app: "TopApp") -> None:
    if not app.switch(to_needs=False) and app.board.filter_text:
        app.board.filter_by("", time.monotonic())


def _next_sort(app: "TopApp") -> None:
    order = list(Sort)
    app.sort_by(order[(order.index(app.board.sort) + 1) % len(order)])


def _fold(app: "TopApp", folded: bool | None) -> None:
    row = app.board.current
    if row is not None and app.target.need is None:
        app.board.fold(row.id, time.monotonic(), folded=folded)


def _filter(app: "TopApp") -> None:
    before = app.board.filter_text

    def change(text: str) -> None:
        app.board.filter_by(text, time.monotonic())
        app.draw()

    app.switch(to_needs=False)
    prompt = LinePrompt(f"Filter ({KEYS})", before, on_change=change)
    app.ask(prompt, lambda text: change(before) if text is None else None)


def _help(app: "TopApp") -> None:
    app.ask(TextPage("Keys (Esc: back)", texts.help_lines(app.target)))


_VIEW_KEYS: Mapping[str, Callable[["TopApp"], object]] = {
    "j": lambda app: app.move(1),
    "down": lambda app: app.move(1),
    "k": lambda app: app.move(-1),
    "up": lambda app: app.move(-1),
    "g": lambda app: app.move(-_FAR),
    "home": lambda app: app.move(-_FAR),
    "G": lambda app: app.move(_FAR),
    "end": lambda app: app.move(_FAR),
    "pagedown": lambda app: app.move(app.page_size),
    "pageup": lambda app: app.move(-app.page_size),
    "enter": lambda app: app.runner.show_details(),
    "escape": _escape,
    "left": lambda app: _fold(app, True),
    "right": lambda app: _fold(app, False),
    " ": lambda app: _fold(app, None),
    "/": _filter,
    "S": _next_sort,
    ":": lambda app: app.runner.choose(),
    "ctrl+k": lambda app: app.runner.choose(),
    "e": lambda app: app.ask(FollowPage(app.runner.page_tabs.of_events())),
    "$": lambda app: app.ask(FollowPage(app.runner.page_tabs.of_spend())),
    "T": lambda app: app.ask(FollowPage(app.runner.page_tabs.of_timeline())),
    "A": lambda app: app.toggle_archived(),
    "C": lambda app: app.next_theme(),
    "?": _help,
    "c": lambda app: app.runner.copy_command(),
    "u": lambda app: app.runner.undo(),
    "q": lambda app: app.exit(),
}
