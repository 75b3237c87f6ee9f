"""The keys of `sm top` outside of its pages and prompts."""

import shlex
import time
from collections.abc import Callable, Mapping
from functools import partial

from sm.board import Sort
from sm.board.chips import neighbour_of
from sm.cli.tui import texts
from sm.cli.tui.board_app import BoardApp
from sm.cli.tui.pages import FollowPage
from sm.cli.tui.palette import Palette, PaletteChoice, action_choices
from sm.cli.tui.runner import ACTION_KEYS, ActionRunner
from sm.cli.tui.screens import TextPage
from sm.cli.tui.texts import EQUAL_KEY
from sm.cli.tui.timeline_tabs import FIRST_TAB

_FAR = 10**9
_PLACES = (
    (EQUAL_KEY, "Answer all requests that ask for the same", "sm approve --same REQUEST"),
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


def press(app: BoardApp, runner: ActionRunner, key: str) -> bool:
    """Carry out what the key means. Returns False if it has no meaning."""
    if len(key) == 1 and key in "0123456789":
        _press_digit(app, runner, int(key))
    elif key in ACTION_KEYS:
        runner.act(ACTION_KEYS[key])
    elif key in _VIEW_KEYS:
        _VIEW_KEYS[key](app, runner)
    else:
        return False
    return True


def _press_digit(app: BoardApp, runner: ActionRunner, digit: int) -> None:
    """Answer the selected question with an option; otherwise choose a workspace."""
    request = app.target.request
    if digit > 0 and request is not None and request["kind"] == "question" and request["options"]:
        runner.answer_with(digit, app.target)
        return
    found = next((chip for chip in app.chips if chip.key == str(digit)), None)
    if found is not None:
        app.choose(found.slug)


def _escape(app: BoardApp, runner: ActionRunner) -> None:
    if not app.switch(to_needs=False) and app.board.filter_text:
        app.board.filter_by("", time.monotonic())


def _step(app: BoardApp, steps: int) -> None:
    app.choose(neighbour_of(app.chips, app.board.workspace, steps))


def _next_sort(app: BoardApp, runner: ActionRunner) -> None:
    order = list(Sort)
    app.sort_by(order[(order.index(app.board.sort) + 1) % len(order)])


def _fold(app: BoardApp, folded: bool | None) -> None:
    row = app.board.current
    if row is not None and app.target.need is None:
        app.fold(row.id, folded)


def _palette(app: BoardApp, runner: ActionRunner) -> None:
    """Show the actions on the selection, the workspaces, and the places of the view."""
    choices = action_choices(app.target, partial(runner.act, target=app.target))
    for chip in app.chips:
        command = shlex.join(
            ("sm", "ls", "--all", *(() if chip.slug is None else ("--workspace", chip.slug)))
        )
        title = f"Workspace: {chip.label} ({chip.sessions})"
        choices.append(PaletteChoice(title, chip.key, command, partial(app.choose, chip.slug)))
    choices += [
        PaletteChoice(title, key, command, partial(_VIEW_KEYS[key], app, runner))
        for key, title, command in _PLACES
    ]

    def chosen(index: str | None) -> None:
        if index is not None:
            choices[int(index)].run()
            app.draw()

    app.ask(Palette(choices), chosen)


def _help(app: BoardApp, runner: ActionRunner) -> None:
    lines = texts.hanging(texts.help_lines(app.target), app.size.width - 2, texts.KEYS_WIDTH)
    app.ask(TextPage("Keys (Esc: back)", lines))


_VIEW_KEYS: Mapping[str, Callable[[BoardApp, ActionRunner], object]] = {
    "j": lambda app, runner: app.move(1),
    "down": lambda app, runner: app.move(1),
    "k": lambda app, runner: app.move(-1),
    "up": lambda app, runner: app.move(-1),
    "g": lambda app, runner: app.move(-_FAR),
    "home": lambda app, runner: app.move(-_FAR),
    "G": lambda app, runner: app.move(_FAR),
    "end": lambda app, runner: app.move(_FAR),
    "pagedown": lambda app, runner: app.move(app.page_size),
    "pageup": lambda app, runner: app.move(-app.page_size),
    EQUAL_KEY: lambda app, runner: runner.equal.show(),
    "enter": lambda app, runner: runner.show_details(),
    "escape": _escape,
    "left": lambda app, runner: _fold(app, True),
    "right": lambda app, runner: _fold(app, False),
    " ": lambda app, runner: _fold(app, None),
    "/": lambda app, runner: app.open_filter(),
    "S": _next_sort,
    "[": lambda app, runner: _step(app, -1),
    "]": lambda app, runner: _step(app, 1),
    ":": _palette,
    "ctrl+k": _palette,
    "e": lambda app, runner: app.ask(FollowPage(runner.page_tabs.of_events())),
    "$": lambda app, runner: app.ask(FollowPage(runner.page_tabs.of_spend())),
    "T": lambda app, runner: app.ask(FollowPage(runner.page_tabs.of_timeline(), FIRST_TAB)),
    "A": lambda app, runner: app.toggle_archived(),
    "C": lambda app, runner: app.next_theme(),
    "?": _help,
    "c": lambda app, runner: runner.copy_command(),
    "u": lambda app, runner: runner.undo(),
    "q": lambda app, runner: app.exit(),
}
