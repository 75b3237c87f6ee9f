# ruff: noqa: RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""What claude's screen says. Pure: lines in, a reading out.

Written against claude 2.1.197, which does not use the alternate screen: chat, then at the bottom either

- the input box (a rule over the pane's whole width, `❯ ` and the draft, a rule) with a footer or a menu below it, or
- a dialog in its place (a rule, a title, options of which one has `❯`, a line of keys), or
- what a process leaves that has ended (an error, `Resume this session with:`, tmux's `Pane is dead`).

Only that bottom counts. What people and agents quote stands in the chat or in the draft, and claude indents
both: a live rule begins in the first column, a quoted one never does. Whatever does not have one of these
shapes is `unknown`: a wrong answer would type a message into a dialog, which answers it.
"""

from sm.providers.claude.screen.reading import last_words, read_end, read_screen, read_title
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State

__all__ = [
    "Obstacle",
    "ScreenContent",
    "State",
    "last_words",
    "read_end",
    "read_screen",
    "read_title",
]
