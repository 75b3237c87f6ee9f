"""The keys of `sm top` outside of its pages and prompts."""

import shlex
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sm.board import KEYS, Sort
from sm.board.chips import neighbour_of
from sm.cli.tui import texts
from sm.cli.tui.pages import FollowPage
from sm.cli.tui.palette import Palette, PaletteChoice
from sm.cli.tui.runner import ACTION_KEYS
from sm.cli.tui.screens import LinePrompt, TextPage

if TYPE_CHECKING:
    from sm.cli.tui.app import TopApp

_FAR = 10**9
_PLACES = (
    ("/", "Filter the list", ""),
    ("S", "Next order of the list", ""),
    ("e", "Show the events", "sm events"),
    ("$", "Show tokens and cost", ""),
    ("T", "Show the timeline", ""),
    ("A", "Show or hide archived sessions", "sm ls --all --archived"),
    ("c", "Copy the sm command of the selection", ""),
    ("C", "Next colours", ""),
    ("?", "Show all keys", ""),
    ("q", "Quit", ""),
)
"""The keys of the palette's other entries, each with its title and its command."""


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


def _step(app: "TopApp", steps: int) -> None:
    app.choose(neighbour_of(app.chips, app.board.workspace, steps))


def _next_sort(app: "TopApp") -> None:
    order = list(Sort)
    app.sort_by(order[(order.index(app.board.sort) + 1) % len(order)])


def _fold(app: "TopApp", folded: bool | None) -> None:
    row = app.board.current
    if row is not None and app.target.need is None:
        app.fold(row.id, folded)


def _filter(app: "TopApp") -> None:
    before = app.board.filter_text

    def change(text: str) -> None:
        app.board.filter_by(text, time.monotonic())
        app.draw()

    app.switch(to_needs=False)
    prompt = LinePrompt(f"Filter ({KEYS})", before, on_change=change)
    app.ask(prompt, lambda text: change(before) if text is None else None)


def _palette(app: "TopApp") -> None:
    """Show the actions on the selection, the workspaces, and the places of the view."""
    choices = app.runner.palette_choices()
    for chip in app.chips:
        command = shlex.join(
            ("sm", "ls", "--all", *(() if chip.slug is None else ("--workspace", chip.slug)))
        )
        title = f"Workspace: {chip.label} ({chip.sessions})"
        choices.append(PaletteChoice(title, chip.key, command, partial(app.choose, chip.slug)))
    choices += [
        PaletteChoice(title, key, command, partial(_VIEW_KEYS[key], app)) for key, title, command in _PLACES
    ]

    def chosen(index: str | None) -> None:
        if index is not None:
            choices[int(index)].run()
            app.draw()

    app.ask(Palette(choices), chosen)


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
    "[": lambda app: _step(app, -1),
    "]": lambda app: _step(app, 1),
    ":": lambda app: _palette(app),
    "ctrl+k": lambda app: _palette(app),
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
