# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""The input box: what stands in it, and what claude does meanwhile."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from sm.providers.claude.screen.dialog import OPTION
from sm.providers.claude.screen.rows import columns, indent, is_rule, one_line, paragraph
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State, short


@dataclass(frozen=True, slots=True)
class _Box:
    """Where the input box is: `rows[top]` and `rows[bottom]` are its rules."""

    top: int
    bottom: int
    text: str


_PROMPTS = ("❯", "!", ">")
_MENU = re.compile(r"^!|(^|\s)[/@]")
"""Drafts under which claude lists completions, from the first column on and instead of its footer."""


def _box(rows: Sequence[str]) -> _Box | None:
    """The input box, if it is what the screen ends with (but for a footer or a menu)."""
    rules = [number for number, row in enumerate(rows) if is_rule(row)][-2:]
    if len(rules) < 2:
        return None
    top, bottom = rules
    inside = rows[top + 1 : bottom]
    plain = set(rows[top] + rows[bottom]) == {"─"}
    # tmux 3.3a draws no cell for what follows a zero-width joiner, and be it the beginning of the rule below.
    if not inside or (plain and abs(columns(rows[top]) - columns(rows[bottom])) > 1):
        return None
    if not inside[0].startswith(_PROMPTS) or inside[0][1:2].strip():
        return None
    if any(row and indent(row) < 2 for row in inside[1:]):
        return None
    shell = "!" if inside[0].startswith("!") else ""
    text = shell + "\n".join(row[2:] for row in inside).rstrip()
    below = rows[bottom + 1 :]
    if any(row and not row.startswith(" ") for row in below) and not _MENU.search(text):
        return None
    # The footer never offers to cancel: that is a question of which the last options stand below a rule.
    if OPTION.match(inside[0]) and "Esc to cancel" in one_line(below):
        return None
    return _Box(top, bottom, text)


_BUSY = re.compile(r"esc to(?: int\w*)?(?: ?…)?")
"""A narrow pane wraps or cuts it."""
_FRESH = "? for shortcuts"
_WHOLE = frozenset({_FRESH, "← for agents"})
"""What a footer ends with that has room for all of its parts, while claude works and while it does not."""
_RUNNING = re.compile(r"\d+ (?:background )?(?:shell|bash|task|agent|monitor|workflow)s?\b")
_STILL = re.compile(r"\d+ \w+ still running")
_HINTS = re.compile(r"Press up to edit queued messages|Try \"[^\"]*\"?|Message @[^\n]*…")
"""What claude writes into an empty box, in dim letters."""


def at_its_box(rows: Sequence[str]) -> ScreenContent | None:
    """What a claude does whose screen ends with its input box; None when it does not."""
    box = _box(rows)
    if box is None:
        return None
    above = rows[: box.top]
    parts = _footer(rows[box.bottom + 1 :], box)
    # Enter to view tasks: it takes the keys, and drops a paste.
    if any(part.startswith("Enter to ") for part in parts):
        return ScreenContent(
            State.DIALOG, "its footer has the keyboard", hint="leave it in its terminal: the up arrow"
        )
    busy = any(_BUSY.fullmatch(part) for part in parts)
    fresh = _FRESH in parts
    spinner, seen = _activity(above)
    hinted = (busy or fresh or _queue(above)) and _HINTS.fullmatch(box.text) is not None
    composer = "" if hinted else box.text
    queued = _queue(above) and ((hinted and box.text.startswith("Press up")) or _heads_a_queue(above))
    waiting = spinner is not None and _WAITING.match(spinner) is not None
    background = waiting or any(_RUNNING.match(part) for part in parts) or _still_running(above)
    if busy or waiting or (queued and hinted) or (spinner is not None and not fresh):
        return ScreenContent(State.WORKING, _doing(spinner), composer, queued, background)
    if not seen and not _WHOLE.intersection(parts):
        return ScreenContent(State.UNKNOWN, "what it does is above the top of its screen", composer)
    return _in_the_way(parts, composer) or _idle(composer, background, _bad_model(above))


def _in_the_way(parts: Sequence[str], composer: str) -> ScreenContent | None:
    """What the footer tells of a box that takes no prompt."""
    if any(part.startswith("search prompts:") for part in parts):
        what = "its earlier prompts are searched"
        return ScreenContent(State.DIALOG, what, composer, hint="close it in its terminal: Escape")
    if any(part.startswith("Not logged in") for part in parts):
        hint = "run claude in a terminal of your own, and /login there"
        return ScreenContent(
            State.BLOCKED, "it is not logged in", composer, hint=hint, obstacle=Obstacle.LOGIN
        )
    return None


def _idle(composer: str, background: bool, bad_model: str) -> ScreenContent:
    what = "it is at its prompt, a draft stands in it" if composer else "it is at its prompt"
    if bad_model:
        what += f"; it cannot use the model {bad_model}"
    obstacle = Obstacle.BAD_MODEL if bad_model else None
    return ScreenContent(
        State.IDLE, what, composer, background=background, obstacle=obstacle, detail=bad_model
    )


def _footer(below: Sequence[str], box: _Box) -> list[str]:
    """What the footer's first paragraph says, part by part.

    A menu's rows are no footer, their descriptions are anybody's words; nor is the list of tasks below it.
    """
    rows = paragraph(below)
    if _MENU.search(box.text) and any(not row.startswith(" ") for row in rows):
        return []
    return [part.strip() for row in rows for part in re.split(r" · |\s{3,}", row) if part.strip()]


_NO_SPINNER = "●⏺❯⎿│╭╰>!"
_DONE = re.compile(r"\S+ for \d")
"""The line under a turn: a verb in the past, and how long it took."""
_WAITING = re.compile(r"Waiting for \d+ [a-z]")
"""Its turn has ended and the next begins by itself: agents that it has started are at work."""
_SPINS = re.compile(r"…(\s*$|\s*\()|· Retrying in \d")


def _activity(above: Sequence[str]) -> tuple[str | None, bool]:
    """What the spinner's line says, if the last thing above the box is one, and whether the last thing was seen.

    The line is a glyph in the first column and words that end in `…`, with time and tokens in brackets behind
    it; tips, tasks and queued messages may follow it, indented. Glyphs and verbs change with every release.
    """
    last = next((n for n in range(len(above) - 1, -1, -1) if above[n] and above[n][0] != " "), None)
    if last is None:
        return None, False
    row = above[last]
    if len(row) < 3 or row[1] != " " or row[0] in _NO_SPINNER or row[0].isalnum():
        return None, True
    more = takewhile(lambda r: not r.lstrip().startswith(("⎿", "❯")), paragraph(above[last:])[1:])
    text = one_line([row[2:], *more])
    if _WAITING.match(text):
        return text, True
    return (text if _SPINS.search(text) and not _DONE.match(text) else None), True


def _queue(above: Sequence[str]) -> bool:
    """Whether something indented stands directly on the box: chat keeps a blank line between."""
    return bool(above) and above[-1].startswith("  ")


def _heads_a_queue(above: Sequence[str]) -> bool:
    """Whether one of those rows begins a message: as in the chat, but indented."""
    for row in reversed(above):
        if indent(row) < 2:
            return False
        if row.startswith("  ❯ "):
            return True
    return False


def _still_running(above: Sequence[str]) -> bool:
    """The line under the last turn names what goes on: nothing may have been said since."""
    last = next((row for row in reversed(above) if row), "")
    return bool(_DONE.match(last[2:]) and _STILL.search(last))


def _doing(spinner: str | None) -> str:
    if spinner is None:
        return "it is working"
    retry = re.search(r"^(.*?) · Retrying in (\w+)(?: · attempt (\d+/\d+))?", spinner)
    if retry:
        why, wait, attempt = retry.groups()
        return short(f"{why}, retrying in {wait}" + (f" (attempt {attempt})" if attempt else ""))
    if _WAITING.match(spinner):
        return short(f"it is {spinner[0].lower()}{spinner[1:]}")
    return short(f"it is working: {spinner}")


def _bad_model(above: Sequence[str]) -> str:
    """The model that the API does not know, if that is the last thing that claude said of itself."""
    last = next((n for n in range(len(above) - 1, -1, -1) if above[n].startswith(("●", "⏺", "❯"))), None)
    if last is None:
        return ""
    found = re.match(
        r"\S There's an issue with the selected model \((.+?)\)", one_line(paragraph(above[last:]))
    )
    return found[1] if found else ""
