"""Reads a screen: tries the known shapes in order."""

from collections.abc import Sequence

from sm.providers.claude.screen.box import at_its_box
from sm.providers.claude.screen.dialog import among_agents, in_a_dialog
from sm.providers.claude.screen.ending import before_the_end, ended, exited, refused
from sm.providers.claude.screen.rows import is_rule, trimmed
from sm.providers.claude.screen.states import ScreenContent, State


def read_screen(lines: Sequence[str]) -> ScreenContent:
    """Interpret the output of `tmux capture-pane -p`, with or without history. Never raises."""
    rows = trimmed(lines)
    if not rows:
        return ScreenContent(State.UNKNOWN, "its screen is empty")
    return (
        ended(rows)
        or among_agents(rows)
        or at_its_box(rows)
        or in_a_dialog(rows)
        or in_a_dialog(_above_a_rule(rows))
        or refused(rows)
        or ScreenContent(State.UNKNOWN, "its screen shows nothing that is known")
    )


def _above_a_rule(rows: Sequence[str]) -> Sequence[str]:
    """Remove the rule of the input box that claude leaves below a dialog taller than the box."""
    return rows[:-1] if len(rows) > 1 and is_rule(rows[-1]) else rows


def read_end(lines: Sequence[str]) -> ScreenContent:
    """Interpret the screen of an ended claude: always `exited`, with the reason if printed.

    `lines` must include the history: tmux 3.3a moves the first row there to make room for `Pane is dead`, and a claude
    that refuses to start often printed only that row (measured at 80x24).
    """
    return exited(before_the_end(trimmed(lines)))


def last_words(lines: Sequence[str]) -> str:
    """The last printed line of an ended process; "" without output."""
    left = before_the_end(trimmed(lines))
    return left[-1].strip() if left else ""


def read_title(title: str) -> State | None:
    """The state in the title; None: unknown. IDLE means only "not busy": an open dialog has the same title.

    claude sets `✳ TITLE`, with a frame of a braille spinner in place of `✳` while busy. Before claude is ready, the
    title is the host name.
    """
    glyph, space, _ = title.partition(" ")
    if space and glyph == "✳":
        return State.IDLE
    if space and len(glyph) == 1 and "\u2801" <= glyph <= "\u28ff":
        return State.WORKING
    return None
