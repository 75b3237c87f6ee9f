"""Reading a screen: which of its shapes is looked for before which."""

from collections.abc import Sequence

from sm.providers.claude.screen.box import at_its_box
from sm.providers.claude.screen.dialog import among_agents, in_a_dialog
from sm.providers.claude.screen.ending import before_the_end, ended, exited, refused
from sm.providers.claude.screen.rows import is_rule, trimmed
from sm.providers.claude.screen.states import ScreenContent, State


def read_screen(lines: Sequence[str]) -> ScreenContent:
    """What `tmux capture-pane -p` shows, with or without history above it. Never raises."""
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
    """Without the rule of the input box that claude leaves below a dialog that is taller than the box was."""
    return rows[:-1] if len(rows) > 1 and is_rule(rows[-1]) else rows


def read_end(lines: Sequence[str]) -> ScreenContent:
    """The same for a claude that is known to have ended: always `exited`, with what it said of the reason.

    The history above the screen belongs to it: tmux 3.3a moves the first row there to make room for its
    `Pane is dead`, and a claude that refuses to start has often printed that one row only (seen at 80x24).
    """
    rows = trimmed(lines)
    return exited(before_the_end(rows))


def last_words(lines: Sequence[str]) -> str:
    """The last line that an ended process has printed; "" if it has printed nothing."""
    left = before_the_end(trimmed(lines))
    return left[-1].strip() if left else ""


def read_title(title: str) -> State | None:
    """Idle means only "not busy": the title is the same while a dialog is open. None: it says nothing.

    claude sets `✳ TITLE`, and while it is busy a frame of a braille spinner in the place of the asterisk;
    before it is ready the title is the host's name.
    """
    glyph, space, _ = title.partition(" ")
    if space and glyph == "✳":
        return State.IDLE
    if space and len(glyph) == 1 and "\u2801" <= glyph <= "\u28ff":
        return State.WORKING
    return None
