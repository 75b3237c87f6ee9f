# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Reads a screen: tries the known shapes in order."""

import re
from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.providers.claude.dialect import current
from sm.providers.claude.screen.box import read_box, without_box
from sm.providers.claude.screen.dialog import blocked_start, read_agents_view, read_dialog_screen
from sm.providers.claude.screen.ending import read_ended, read_exit_reason, read_refusal, without_end_marks
from sm.providers.claude.screen.rows import is_rule, last_paragraph, one_line, trim
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State

_OPTION = re.compile(r" {0,3}(?P<pointer>❯| ) +(?:\d\. *)?(?P<label>\S.*)")
_DIALOGS = (Obstacle.TRUST, Obstacle.BYPASS_WARNING)


@dataclass(frozen=True, slots=True)
class StartDialog:
    obstacle: Obstacle
    steps: int
    """The options from the selected one down to the one that approves, or 0 if that one is selected."""


def read_start_dialog(rows: Sequence[str]) -> StartDialog | None:
    """The dialog that fills the bottom of the screen, or None if sm cannot answer it.

    Its options have numbers in claude 2.1.197 and none in 2.1.330, so they are found by their text and by claude's
    pointer. `rows` end with claude's line of keys. The screen shows the title, both options and nothing below the keys:
    a dialog that is taller than the terminal is not answered.
    """
    words = current()
    if words.phrases("answer.keys").fit(one_line(last_paragraph(rows))) is None:
        return None
    above = list(rows[: len(rows) - len(last_paragraph(rows))])
    while above and not above[-1]:
        above.pop()
    options = [_OPTION.fullmatch(row) for row in above[-2:]]
    labels = [option["label"] for option in options if option is not None]
    pointers = [option is not None and option["pointer"] == "❯" for option in options]
    refusing = [number for number, label in enumerate(labels) if label in words.texts("answer.refuse")]
    if len(labels) != 2 or sum(pointers) != 1 or len(refusing) != 1:
        return None
    approves = 1 - refusing[0]
    first = max((number for number, row in enumerate(above) if is_rule(row)), default=-1) + 1
    for obstacle in _DIALOGS:
        name = f"answer.{obstacle.name.lower()}"
        is_asked = words.phrases(f"{name}.approve").fit(labels[approves]) is not None
        titles = words.phrases(f"{name}.title")
        if is_asked and any(titles.fit(row.strip()) is not None for row in above[first:-2]):
            return StartDialog(obstacle, approves - pointers.index(True))
    return None


def read_screen(lines: Sequence[str]) -> ScreenContent:
    """Interpret the output of `tmux capture-pane -p`, with or without history. Never raises."""
    rows = trim(lines)
    if not rows:
        return ScreenContent(State.UNKNOWN, "the screen is empty")
    return (
        read_ended(rows)
        or read_agents_view(rows)
        or read_box(rows)
        or _start_dialog_content(rows)
        or read_dialog_screen(rows)
        or read_dialog_screen(_above_a_rule(rows))
        or read_refusal(rows)
        or ScreenContent(State.UNKNOWN, "sm does not recognize the screen")
    )


def find_start_dialog(lines: Sequence[str]) -> StartDialog | None:
    """The first-start dialog on the screen that sm can answer, or None if there is none."""
    content = read_screen(lines)
    dialog = read_start_dialog(trim(lines)) if content.state is State.BLOCKED else None
    return dialog if dialog is not None and content.obstacle is dialog.obstacle else None


def _start_dialog_content(rows: Sequence[str]) -> ScreenContent | None:
    dialog = read_start_dialog(rows)
    return None if dialog is None else blocked_start(dialog.obstacle)


def read_output(lines: Sequence[str]) -> list[str]:
    """The lines without the input box, its footer and all rules, and without blank lines at the end."""
    return without_box(trim(lines))


def _above_a_rule(rows: Sequence[str]) -> Sequence[str]:
    """Remove the rule of the input box that claude leaves below a dialog taller than the box."""
    return rows[:-1] if len(rows) > 1 and is_rule(rows[-1]) else rows


def read_end(lines: Sequence[str]) -> ScreenContent:
    """Interpret the screen of an ended claude: always `exited`, with the reason if printed.

    `lines` must include the history: tmux 3.3a moves the first row there to make room for `Pane is dead`, and a claude
    that refuses to start often printed only that row (measured at 80x24).
    """
    return read_exit_reason(without_end_marks(trim(lines)))


def last_words(lines: Sequence[str]) -> str:
    """The last printed line of an ended process; "" without output."""
    left = without_end_marks(trim(lines))
    return left[-1].strip() if left else ""


def read_title(title: str) -> State | None:
    """The state in the title, or None if unknown. IDLE means only "not busy": an open dialog has the same title.

    claude sets `✳ TITLE`, with a frame of a spinner in place of `✳` while busy. Before it is ready, the title is the
    host name, or in tmux 3.3a a question of 2.1.332 to the terminal.
    """
    glyph, space, _ = title.partition(" ")
    if not space or len(glyph) != 1:
        return None
    if glyph in current().texts("title.idle"):
        return State.IDLE
    ranges = (text.partition("-") for text in current().texts("title.busy"))
    return State.WORKING if any(first <= glyph <= (last or first) for first, _, last in ranges) else None
