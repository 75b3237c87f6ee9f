# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Reads a screen that ends with the input box: the draft, and claude's current state."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile

from sm.core.dataclass import dataclass
from sm.providers.claude.dialect import current
from sm.providers.claude.screen.dialog import OPTION
from sm.providers.claude.screen.rows import columns, indent, is_rule, one_line, paragraph, trim
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State, short


@dataclass(frozen=True, slots=True)
class _Box:
    """The input box: `rows[top]` and `rows[bottom]` are its rules."""

    top: int
    bottom: int
    text: str


_MENU = re.compile(r"^!|(^|\s)[/@]")
"""Drafts with a list of completions, which replaces the footer and begins in the first column."""


def _box(rows: Sequence[str]) -> _Box | None:
    """The input box, if only a footer or a menu follows."""
    rules = [number for number, row in enumerate(rows) if is_rule(row)][-2:]
    if len(rules) < 2:
        return None
    top, bottom = rules
    inside = rows[top + 1 : bottom]
    plain = set(rows[top] + rows[bottom]) == {"─"}
    # tmux 3.3a draws no cell after a zero-width joiner, even for the first character of the rule below.
    if not inside or (plain and abs(columns(rows[top]) - columns(rows[bottom])) > 1):
        return None
    if not inside[0].startswith(current().texts("glyphs.box")) or inside[0][1:2].strip():
        return None
    if any(row and indent(row) < 2 for row in inside[1:]):
        return None
    shell = "!" if inside[0].startswith("!") else ""
    text = shell + "\n".join(row[2:] for row in inside).rstrip()
    below = rows[bottom + 1 :]
    if any(row and not row.startswith(" ") for row in below) and not _MENU.search(text):
        return None
    # The footer never offers to cancel. This is a question with its last options below a rule.
    footer = one_line(below)
    if OPTION.match(inside[0]) and any(words in footer for words in current().texts("dialog.escapes")):
        return None
    return _Box(top, bottom, text)


def without_box(rows: Sequence[str]) -> list[str]:
    """The rows above the input box, without rules."""
    box = _box(rows)
    return trim([row for row in (rows if box is None else rows[: box.top]) if not is_rule(row)])


def _is_busy(part: str) -> bool:
    """Return whether a part of the footer says that a turn runs. A narrow pane cuts it behind its second word."""
    words = part.removesuffix("…").rstrip()
    least = [" ".join(text.split()[:2]) for text in current().texts("footer.busy")]
    whole = zip(current().texts("footer.busy"), least, strict=True)
    return any(text.startswith(words) and words.startswith(beginning) for text, beginning in whole)


def _is_running(part: str) -> bool:
    """Return whether a part of the footer counts work in the background."""
    return _running(current().texts("footer.running")).match(part) is not None


@cache
def _running(kinds: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\d+ (?:{'|'.join(map(re.escape, kinds))})s?\b")


def read_box(rows: Sequence[str]) -> ScreenContent | None:
    """The content of a screen that ends with the input box, or None for another screen."""
    box = _box(rows)
    if box is None:
        return None
    above = rows[: box.top]
    parts = _footer(rows[box.bottom + 1 :], box)
    # "Enter to view tasks": the footer takes the keys and drops a paste.
    words = current()
    if any(words.phrases("footer.focused").fit(part) is not None for part in parts):
        return ScreenContent(
            State.DIALOG,
            "the footer of claude has the keyboard focus",
            hint="leave the footer in the terminal: press the up arrow",
        )
    busy = any(map(_is_busy, parts))
    fresh = not {*words.texts("footer.fresh")}.isdisjoint(parts)
    spinner, is_visible = _activity(above)
    hinted = (busy or fresh or _queue(above)) and words.phrases("box.hints").fit(box.text) is not None
    composer = "" if hinted else box.text
    says_queued = hinted and words.phrases("box.queue_hint").fit(box.text) is not None
    queued = _queue(above) and (says_queued or _begins_queued_message(above))
    waiting = spinner is not None and _is_waiting(spinner)
    background = waiting or any(map(_is_running, parts)) or _still_running(above)
    if busy or waiting or (queued and hinted) or (spinner is not None and not fresh):
        return ScreenContent(State.WORKING, _activity_text(spinner), composer, queued, background)
    if not is_visible and {*words.texts("footer.whole")}.isdisjoint(parts):
        return ScreenContent(State.UNKNOWN, "the activity is above the top of the screen", composer)
    return _read_closed_box(parts, composer) or _idle(composer, background, _bad_model(above))


def _read_closed_box(parts: Sequence[str], composer: str) -> ScreenContent | None:
    words = current()
    if any(words.phrases("footer.search").fit(part) is not None for part in parts):
        what = "the search of earlier prompts is open"
        return ScreenContent(
            State.DIALOG, what, composer, hint="close the search in the terminal: press Escape"
        )
    if any(words.phrases("footer.no_login").fit(part) is not None for part in parts):
        hint = "run claude in your own terminal and type /login"
        return ScreenContent(
            State.BLOCKED, "claude is not logged in", composer, hint=hint, obstacle=Obstacle.LOGIN
        )
    return None


def _idle(composer: str, background: bool, bad_model: str) -> ScreenContent:
    what = "claude is at its prompt, with a draft" if composer else "claude is at its prompt"
    if bad_model:
        what += f"; claude cannot use the model {bad_model}"
    obstacle = Obstacle.BAD_MODEL if bad_model else None
    return ScreenContent(
        State.IDLE, what, composer, background=background, obstacle=obstacle, detail=bad_model
    )


def _footer(below: Sequence[str], box: _Box) -> list[str]:
    """The parts of the footer's first paragraph.

    Excludes the task list below, and the rows of a menu, whose descriptions are not claude's text.
    """
    rows = paragraph(below)
    if _MENU.search(box.text) and any(not row.startswith(" ") for row in rows):
        return []
    return [part.strip() for row in rows for part in re.split(r" · |\s{3,}", row) if part.strip()]


_NO_SPINNER = "❯⎿│╭╰>!"
_SPINS = re.compile(r"…(\s*$|\s*\()")


def _is_done(text: str) -> bool:
    """Return whether the line is that below a finished turn: a verb in the past tense and the duration."""
    return current().phrases("spinner.done").fit(text) is not None


def _retry(spinner: str) -> Mapping[str, str] | None:
    """Read the parts of the line of a retry. Returns None for another line."""
    kept = current().phrases("spinner.retry").fit(spinner)
    return None if kept is None or not kept.get("wait", "")[:1].isdecimal() else kept


def _is_waiting(spinner: str) -> bool:
    """Return whether the turn ended, and the next one begins by itself when the background agents finish."""
    return current().phrases("spinner.waiting").fit(spinner) is not None


def _activity(above: Sequence[str]) -> tuple[str | None, bool]:
    """The text of the spinner line, if it is the last block above the box, and whether that block is visible.

    The line has a glyph in the first column and words that end in `…`, then time and tokens in parentheses. Indented
    tips, tasks and queued messages may follow. Glyphs and verbs change with every release.
    """
    last = next((n for n in range(len(above) - 1, -1, -1) if above[n] and above[n][0] != " "), None)
    if last is None:
        return None, False
    row, words = above[last], current()
    if (
        len(row) < 3
        or row[1] != " "
        or row[0] in _NO_SPINNER
        or row[0].isalnum()
        or row.startswith(words.texts("glyphs.message"))
    ):
        return None, True
    more = takewhile(lambda r: not r.lstrip().startswith(("⎿", "❯")), paragraph(above[last:])[1:])
    text = one_line([row[2:], *more])
    if _is_waiting(text):
        return text, True
    spins = _SPINS.search(text) is not None or _retry(text) is not None
    return (text if spins and not _is_done(text) else None), True


def _queue(above: Sequence[str]) -> bool:
    """Return whether an indented row is directly above the box. The chat leaves a blank row."""
    return bool(above) and above[-1].startswith("  ")


def _begins_queued_message(above: Sequence[str]) -> bool:
    """Return whether one of these rows begins a message: as in the chat, but indented."""
    for row in reversed(above):
        if indent(row) < 2:
            return False
        if row.startswith("  ❯ "):
            return True
    return False


def _still_running(above: Sequence[str]) -> bool:
    """Return whether the line below the last turn lists running work, with no text after the line."""
    last = next((row for row in reversed(above) if row), "")
    return _is_done(last[2:]) and current().phrases("spinner.still_running").within(last)


def _activity_text(spinner: str | None) -> str:
    if spinner is None:
        return "claude is working"
    if (retry := _retry(spinner)) is not None:
        attempt = f" (attempt {retry['attempt']})" if "attempt" in retry else ""
        return short(f"{retry.get('why', '')}, retrying in {retry['wait']}{attempt}")
    if _is_waiting(spinner):
        return short(f"claude is {spinner[0].lower()}{spinner[1:]}")
    return short(f"claude is working: {spinner}")


def _bad_model(above: Sequence[str]) -> str:
    """The model that the API rejects, if this error is the last message of claude."""
    glyphs = (*current().texts("glyphs.message"), "❯")
    last = next((n for n in range(len(above) - 1, -1, -1) if above[n].startswith(glyphs)), None)
    if last is None:
        return ""
    message = one_line(paragraph(above[last:]))[1:].lstrip()
    kept = current().phrases("chat.bad_model").fit(message)
    return "" if kept is None else kept.get("model", "an unknown one")
