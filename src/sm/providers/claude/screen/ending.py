# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Recognizes that claude has ended, and the reason."""

import re
from collections.abc import Sequence

from sm.providers.claude.screen.dialog import read_dialog_screen
from sm.providers.claude.screen.rows import indent, last_paragraph, paragraph
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State

_DEAD = re.compile(r"Pane is dead( \(.*)?|\[sm\] the agent has ended.*")
"""The line that tmux (remain-on-exit) or sm writes below the output of a dead process."""
_EXIT_CODE = re.compile(r"\[exit(ed)? .*\]")
_SHELL_PROMPT = re.compile(r"[^\s❯│●]*[$#%]|\[[^\]]+\][$#%]")
_ENDS = (_DEAD, _EXIT_CODE, re.compile("Resume this session with:"), re.compile(r"claude --resume \S.*"))


def _wrapped(words: str) -> re.Pattern[str]:
    """A pattern for `words` at the beginning of a line that the terminal may have wrapped anywhere.

    The terminal wraps early output of claude within words and drops a space at the wrap. Callers join the rows without
    a separator, so every space is optional.
    """
    return re.compile(words.replace(" ", r"\s*"))


_REASONS: Sequence[tuple[Obstacle, re.Pattern[str]]] = (
    (Obstacle.BYPASS_AS_ROOT, _wrapped("--dangerously-skip-permissions cannot be used with root")),
    (Obstacle.UNKNOWN_OPTION, _wrapped("error: unknown option '(?P<detail>[^']+)'")),
    (
        Obstacle.BAD_CHOICE,
        _wrapped("error: option '(?P<option>--[\\w-]+)[^']*' argument '(?P<detail>[^']*)' is invalid"),
    ),
    (Obstacle.SESSION_ID_IN_USE, _wrapped(r"Error: Session ID (?P<detail>\S+?) is already in use")),
    (Obstacle.BAD_SESSION_ID, _wrapped("Error: Invalid session ID")),
    (
        Obstacle.NO_CONVERSATION,
        _wrapped(r"No conversation found (?:with session ID: (?P<detail>[\w-]+)|to continue)"),
    ),
    (
        Obstacle.NO_FILE,
        _wrapped(r"(?:Error: )?(?:Settings|MCP config) file not found: (?P<detail>.+)"),
    ),
    (Obstacle.NO_CONNECTION, _wrapped("Unable to connect to Anthropic services")),
)
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
    while end:
        row = rows[end - 1]
        # A narrow pane wraps the line of tmux, so `2026)` may be on a separate row.
        both = (rows[end - 2] + row) if end > 1 else row
        if not row:
            end -= 1
        elif any(mark.fullmatch(row) for mark in _ENDS):
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
        for obstacle, pattern in _REASONS:
            match = pattern.match(text)
            if match:
                named = match.groupdict()
                detail = named.get("detail") or ""
                return obstacle, f"{named['option']} {detail}" if named.get("option") else detail
    return None, ""
