# ruff: noqa: RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""Interprets claude's screen. Pure.

Written for claude 2.1.197, which does not use the alternate screen: chat, then at the bottom either

- the input box (a rule over the pane's whole width, `❯ ` and the draft, a rule) with a footer or a menu below it, or
- a dialog in its place (a rule, a title, options of which one has `❯`, a line of keys), or
- the last output of an ended process (an error, `Resume this session with:`, tmux's `Pane is dead`).

Only the bottom matters. claude indents the chat and the draft, so a real rule begins in the first column and a quoted
one never does. Other screens are `unknown`: an error here would type a message into a dialog and so answer it.
"""

from sm.providers.claude.screen.reading import (
    find_start_dialog,
    last_words,
    read_end,
    read_output,
    read_screen,
    read_title,
)
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State

__all__ = [
    "Obstacle",
    "ScreenContent",
    "State",
    "find_start_dialog",
    "last_words",
    "read_end",
    "read_output",
    "read_screen",
    "read_title",
]
