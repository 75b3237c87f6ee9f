# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""How a claude has ended, and why."""

import re
from collections.abc import Sequence

from sm.providers.claude.screen.dialog import in_a_dialog
from sm.providers.claude.screen.rows import indent, last_paragraph, paragraph
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State

_DEAD = re.compile(r"Pane is dead( \(.*)?|\[sm\] the agent has ended.*")
"""What tmux writes under a dead process where remain-on-exit is set, and what a terminal of ours may write."""
_EXIT_CODE = re.compile(r"\[exit(ed)? .*\]")
_SHELL_PROMPT = re.compile(r"[^\s❯│●]*[$#%]|\[[^\]]+\][$#%]")
_ENDS = (_DEAD, _EXIT_CODE, re.compile("Resume this session with:"), re.compile(r"claude --resume \S.*"))


def _said(words: str) -> re.Pattern[str]:
    """`words` at the beginning of a line that the terminal, not claude, may have cut anywhere.

    What claude prints before it draws a screen is cut at the pane's width within words, and a space at the
    cut is lost: the rows are joined with nothing between them, and every space here is optional.
    """
    return re.compile(words.replace(" ", r"\s*"))


_REASONS: Sequence[tuple[Obstacle, re.Pattern[str]]] = (
    (Obstacle.BYPASS_AS_ROOT, _said("--dangerously-skip-permissions cannot be used with root")),
    (Obstacle.UNKNOWN_OPTION, _said("error: unknown option '(?P<detail>[^']+)'")),
    (
        Obstacle.BAD_CHOICE,
        _said("error: option '(?P<option>--[\\w-]+)[^']*' argument '(?P<detail>[^']*)' is invalid"),
    ),
    (Obstacle.SESSION_ID_IN_USE, _said(r"Error: Session ID (?P<detail>\S+?) is already in use")),
    (Obstacle.BAD_SESSION_ID, _said("Error: Invalid session ID")),
    (
        Obstacle.NO_CONVERSATION,
        _said(r"No conversation found (?:with session ID: (?P<detail>[\w-]+)|to continue)"),
    ),
    (
        Obstacle.NO_FILE,
        _said(r"(?:Error: )?(?:Settings|MCP config) file not found: (?P<detail>.+)"),
    ),
    (Obstacle.NO_CONNECTION, _said("Unable to connect to Anthropic services")),
)
_REASON_ROWS = 40
"""How far above the end a reason is looked for: claude's start prints a dozen lines at most, narrow panes wrap."""


def ended(rows: Sequence[str]) -> ScreenContent | None:
    """The process is gone: the last thing on the screen is not claude's."""
    left = before_the_end(rows)
    return exited(left) if len(left) < len(rows) else None


def refused(rows: Sequence[str]) -> ScreenContent | None:
    """It is about to end: why is the last thing that it has printed."""
    return exited(rows) if _reason(last_paragraph(rows))[0] is not None else None


def exited(left: Sequence[str]) -> ScreenContent:
    """The reading of a claude that has left these rows behind: see `before_the_end`."""
    obstacle, detail = _reason(left)
    if obstacle is None:
        # The answer "no" to a dialog of the first run ends it too, and leaves the dialog behind.
        asked = in_a_dialog(left)
        obstacle = asked.obstacle if asked else None
    if obstacle is None:
        return ScreenContent(State.EXITED, "it has ended")
    return ScreenContent(State.EXITED, f"it has ended: {obstacle}", obstacle=obstacle, detail=detail)


def before_the_end(rows: Sequence[str]) -> Sequence[str]:
    """`rows` without what stands there once a process has ended; all of them when nothing of that does."""
    end = len(rows)
    marked = prompts = 0
    while end:
        row = rows[end - 1]
        # A narrow pane wraps tmux's line: `2026)` is left on a row of its own.
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
    # A shell's prompt under nothing at all is a terminal in which nothing has been started.
    return rows[:end] if marked or (prompts and end) else rows


def _reason(rows: Sequence[str]) -> tuple[Obstacle | None, str]:
    """Why it has ended, from the last rows; it begins a line of its own, where nothing quoted begins."""
    first = max(0, len(rows) - _REASON_ROWS)
    for start in range(len(rows) - 1, first - 1, -1):
        if indent(rows[start]) > 1:
            continue
        text = "".join(row.strip() if row.startswith(" ") else row for row in paragraph(rows[start:]))
        for obstacle, pattern in _REASONS:
            found = pattern.match(text)
            if found:
                named = found.groupdict()
                detail = named.get("detail") or ""
                return obstacle, f"{named['option']} {detail}" if named.get("option") else detail
    return None, ""
