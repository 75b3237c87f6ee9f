# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Recognizes that claude has ended, and the reason."""

import re
from collections.abc import Sequence

from sm.providers.claude.dialect import current
from sm.providers.claude.screen.dialog import read_dialog_screen
from sm.providers.claude.screen.rows import indent, last_paragraph, paragraph
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State

_DEAD = re.compile(r"Pane is dead( \(.*)?|\[sm\] the agent has ended.*")
"""The line that tmux (remain-on-exit) or sm writes below the output of a dead process."""
_EXIT_CODE = re.compile(r"\[exit(ed)? .*\]")
_SHELL_PROMPT = re.compile(r"[^\s❯│●]*[$#%]|\[[^\]]+\][$#%]")
_ENDS = (_DEAD, _EXIT_CODE)
_OPTION_NAME = re.compile(r"--[\w-]+")


_REASON_ROWS = 40
"""Rows above the end to search for a reason: claude prints at most a dozen lines, which narrow panes wrap."""


def read_ended(rows: Sequence[str]) -> ScreenContent | None:
    """The content if the process is gone: the last rows are not drawn by claude."""
    left = without_end_marks(rows)
    return read_exit_reason(left) if len(left) < len(rows) else None


def read_refusal(rows: Sequence[str]) -> ScreenContent | None:
    """The content if claude is about to exit: its last output is the reason."""
    return read_exit_reason(rows) if _reason(last_paragraph(rows))[0] is not None else None


def read_exit_reason(left: Sequence[str]) -> ScreenContent:
    """The content for the last rows of an ended claude (see `without_end_marks`)."""
    obstacle, detail = _reason(left)
    if obstacle is None:
        # "No" in a first-run dialog also ends claude, and the dialog stays visible.
        dialog = read_dialog_screen(left)
        obstacle = dialog.obstacle if dialog else None
    if obstacle is None:
        return ScreenContent(State.EXITED, "claude has ended")
    return ScreenContent(State.EXITED, f"claude has ended: {obstacle}", obstacle=obstacle, detail=detail)


def without_end_marks(rows: Sequence[str]) -> Sequence[str]:
    """`rows` without the end marks of tmux and the shell; all rows if there are none."""
    end = len(rows)
    marked = prompts = 0
    farewell = current().phrases("ending.farewell")
    while end:
        row = rows[end - 1]
        # A narrow pane wraps the line of tmux, so `2026)` may be on a separate row.
        both = (rows[end - 2] + row) if end > 1 else row
        if not row:
            end -= 1
        elif any(mark.fullmatch(row) for mark in _ENDS) or farewell.fit(row) is not None:
            marked, end = marked + 1, end - 1
        elif row.endswith(")") and _DEAD.fullmatch(both):
            marked, end = marked + 1, end - 2
        elif _SHELL_PROMPT.fullmatch(row):
            prompts, end = prompts + 1, end - 1
        else:
            break
    # Only a shell prompt: nothing has been started in this terminal.
    return rows[:end] if marked or (prompts and end) else rows


def _reason(rows: Sequence[str]) -> tuple[Obstacle | None, str]:
    """The reason from the last rows. It begins in the first column, unlike quoted text."""
    first = max(0, len(rows) - _REASON_ROWS)
    for start in range(len(rows) - 1, first - 1, -1):
        if indent(rows[start]) > 1:
            continue
        text = "".join(row.strip() if row.startswith(" ") else row for row in paragraph(rows[start:]))
        for name, phrases in current().group("ending.reason"):
            # The terminal wraps early output of claude within words, and drops a blank at the wrap.
            kept = phrases.fit(text, wrapped=True)
            if kept is not None:
                option, detail = _OPTION_NAME.match(kept.get("option", "")), kept.get("detail", "")
                return Obstacle[name.upper()], detail if option is None else f"{option[0]} {detail}"
    return None, ""
