# ruff: noqa: RUF001, RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""What claude's screen says. Pure: lines in, a reading out.

Written against claude 2.1.197, which does not use the alternate screen: chat, then at the bottom either

- the input box (a rule over the pane's whole width, `❯ ` and the draft, a rule) with a footer or a menu below it, or
- a dialog in its place (a rule, a title, options of which one has `❯`, a line of keys), or
- what a process leaves that has ended (an error, `Resume this session with:`, tmux's `Pane is dead`).

Only that bottom counts. What people and agents quote stands in the chat or in the draft, and claude indents
both: a live rule begins in the first column, a quoted one never does. Whatever does not have one of these
shapes is `unknown`: a wrong answer would type a message into a dialog, which answers it.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile


class State(StrEnum):
    """What claude is doing, as far as its screen shows it."""

    IDLE = "idle"
    WORKING = "working"
    PERMISSION = "permission"
    """It asks whether it may run, write, fetch, or carry out its plan."""
    QUESTION = "question"
    """It asks something with options (the AskUserQuestion tool)."""
    DIALOG = "dialog"
    """A menu or a view that a person has opened: what is typed goes into that."""
    BLOCKED = "blocked"
    """It has not started yet, and will not before a person has done something (`Screen.obstacle`)."""
    EXITED = "exited"
    UNKNOWN = "unknown"


class Obstacle(StrEnum):
    """What keeps claude from starting."""

    ONBOARDING = "onboarding"
    TRUST = "trust"
    LOGIN = "login"
    API_KEY = "api_key"
    BYPASS_WARNING = "bypass_warning"
    MCP_SERVER = "mcp_server"
    IMPORTS = "imports"
    # From here on: it has ended and said why.
    BYPASS_AS_ROOT = "bypass_as_root"
    UNKNOWN_OPTION = "unknown_option"
    BAD_CHOICE = "bad_choice"
    BAD_SESSION_ID = "bad_session_id"
    SESSION_ID_IN_USE = "session_id_in_use"
    NO_CONVERSATION = "no_conversation"
    NO_FILE = "no_file"
    NO_CONNECTION = "no_connection"
    # And this one takes the prompt, and fails each turn.
    BAD_MODEL = "bad_model"


@dataclass(frozen=True, slots=True)
class Screen:
    """One reading. It holds for the moment of the capture only."""

    state: State
    what: str
    """One line for a person."""
    composer: str | None = None
    """The text in the input box as it is wrapped there; "" when it is empty, None when there is no box.

    In shell mode it begins with "!": what is typed there is run. A suggestion that claude shows in dim letters
    cannot be told from a draft without colours and is read as one, but for the hints that it always shows.
    """
    queued: bool = False
    """Messages wait in claude for the turn's end or the next tool result."""
    background: bool = False
    """A shell or an agent that it has started goes on though its turn has ended."""
    hint: str | None = None
    """What to type, where a person is needed."""
    obstacle: Obstacle | None = None
    detail: str = ""
    """What of the obstacle has a name, as it stands on the screen: the option, the model, the file, the session id."""


def read_screen(lines: Sequence[str]) -> Screen:
    """What `tmux capture-pane -p` shows, with or without history above it. Never raises."""
    rows = _rows(lines)
    if not rows:
        return Screen(State.UNKNOWN, "its screen is empty")
    return (
        _ended(rows)
        or _among_agents(rows)
        or _at_its_box(rows)
        or _in_a_dialog(rows)
        or _in_a_dialog(_above_a_rule(rows))
        or _refused(rows)
        or Screen(State.UNKNOWN, "its screen shows nothing that is known")
    )


_OTHERS = re.compile(r"enter to \w+ · ")


def _among_agents(rows: Sequence[str]) -> Screen | None:
    """The view of all its user's agents (`←` at an empty prompt), whose box starts another claude. No footer of the
    input box, and no dialog, writes its keys in small letters (2.1.197).
    """
    last = max((number for number, row in enumerate(rows) if _is_rule(row)), default=-1)
    if last < 0 or not _OTHERS.match(_line(rows[last + 1 :])):
        return None
    # Escape ends claude there (seen).
    return Screen(
        State.DIALOG, "the view of its agents is open", hint="open the session in its terminal: Enter"
    )


def _above_a_rule(rows: Sequence[str]) -> Sequence[str]:
    """Without the rule of the input box that claude leaves below a dialog that is taller than the box was."""
    return rows[:-1] if len(rows) > 1 and _is_rule(rows[-1]) else rows


def read_end(lines: Sequence[str]) -> Screen:
    """The same for a claude that is known to have ended: always `exited`, with what it said of the reason.

    The history above the screen belongs to it: tmux 3.3a moves the first row there to make room for its
    `Pane is dead`, and a claude that refuses to start has often printed that one row only (seen at 80x24).
    """
    rows = _rows(lines)
    return _exited(_before_the_end(rows))


def last_words(lines: Sequence[str]) -> str:
    """The last line that an ended process has printed; "" if it has printed nothing."""
    left = _before_the_end(_rows(lines))
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


# --------------------------------------------------------------------------------------------- rows and rules

_RULE = re.compile(r"─{10,}|─+ [^─]+ ─+")
"""A rule, or one that carries the session's name: `──── my-agent ──`."""


def _rows(lines: Sequence[str]) -> list[str]:
    """Without what is only padding. claude writes a no-break space after its `❯`."""
    rows = [line.replace("\xa0", " ").rstrip() for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _is_rule(row: str) -> bool:
    return bool(_RULE.fullmatch(row)) and row.count("─") >= 10


def _columns(row: str) -> int:
    """How wide a terminal shows `row`: names of sessions may be in any script."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in row)
    unseen = sum(unicodedata.category(c) in ("Mn", "Me", "Cf") for c in row)
    return len(row) + wide - unseen


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _paragraph(rows: Sequence[str]) -> list[str]:
    """The first rows up to a blank one, without blanks before them."""
    taken: list[str] = []
    for row in rows:
        if row:
            taken.append(row)
        elif taken:
            break
    return taken


def _line(rows: Sequence[str]) -> str:
    """Wrapped rows as one line."""
    return " ".join(row.strip() for row in rows)


def _short(text: str, limit: int = 120) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


# -------------------------------------------------------------------------------------------------- has ended

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


def _ended(rows: Sequence[str]) -> Screen | None:
    """The process is gone: the last thing on the screen is not claude's."""
    left = _before_the_end(rows)
    return _exited(left) if len(left) < len(rows) else None


def _refused(rows: Sequence[str]) -> Screen | None:
    """It is about to end: why is the last thing that it has printed."""
    return _exited(rows) if _reason(_last_paragraph(rows))[0] is not None else None


def _exited(left: Sequence[str]) -> Screen:
    obstacle, detail = _reason(left)
    if obstacle is None:
        # The answer "no" to a dialog of the first run ends it too, and leaves the dialog behind.
        asked = _in_a_dialog(left)
        obstacle = asked.obstacle if asked else None
    if obstacle is None:
        return Screen(State.EXITED, "it has ended")
    return Screen(State.EXITED, f"it has ended: {reason_words(obstacle)}", obstacle=obstacle, detail=detail)


def _before_the_end(rows: Sequence[str]) -> Sequence[str]:
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
        if _indent(rows[start]) > 1:
            continue
        text = "".join(row.strip() if row.startswith(" ") else row for row in _paragraph(rows[start:]))
        for obstacle, pattern in _REASONS:
            found = pattern.match(text)
            if found:
                named = found.groupdict()
                detail = named.get("detail") or ""
                return obstacle, f"{named['option']} {detail}" if named.get("option") else detail
    return None, ""


# -------------------------------------------------------------------------------------------------- at its box


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
    rules = [number for number, row in enumerate(rows) if _is_rule(row)][-2:]
    if len(rules) < 2:
        return None
    top, bottom = rules
    inside = rows[top + 1 : bottom]
    plain = set(rows[top] + rows[bottom]) == {"─"}
    # tmux 3.3a draws no cell for what follows a zero-width joiner, and be it the beginning of the rule below.
    if not inside or (plain and abs(_columns(rows[top]) - _columns(rows[bottom])) > 1):
        return None
    if not inside[0].startswith(_PROMPTS) or inside[0][1:2].strip():
        return None
    if any(row and _indent(row) < 2 for row in inside[1:]):
        return None
    shell = "!" if inside[0].startswith("!") else ""
    text = shell + "\n".join(row[2:] for row in inside).rstrip()
    below = rows[bottom + 1 :]
    if any(row and not row.startswith(" ") for row in below) and not _MENU.search(text):
        return None
    # The footer never offers to cancel: that is a question of which the last options stand below a rule.
    if _OPTION.match(inside[0]) and "Esc to cancel" in _line(below):
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


def _at_its_box(rows: Sequence[str]) -> Screen | None:
    box = _box(rows)
    if box is None:
        return None
    above = rows[: box.top]
    parts = _footer(rows[box.bottom + 1 :], box)
    if any(
        part.startswith("Enter to ") for part in parts
    ):  # to view tasks: it takes the keys, and drops a paste
        return Screen(
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
        return Screen(State.WORKING, _doing(spinner), composer, queued, background)
    if not seen and not _WHOLE.intersection(parts):
        return Screen(State.UNKNOWN, "what it does is above the top of its screen", composer)
    return _in_the_way(parts, composer) or _idle(composer, background, _bad_model(above))


def _in_the_way(parts: Sequence[str], composer: str) -> Screen | None:
    """What the footer tells of a box that takes no prompt."""
    if any(part.startswith("search prompts:") for part in parts):
        what = "its earlier prompts are searched"
        return Screen(State.DIALOG, what, composer, hint="close it in its terminal: Escape")
    if any(part.startswith("Not logged in") for part in parts):
        hint = "run claude in a terminal of your own, and /login there"
        return Screen(State.BLOCKED, "it is not logged in", composer, hint=hint, obstacle=Obstacle.LOGIN)
    return None


def _idle(composer: str, background: bool, bad_model: str) -> Screen:
    what = "it is at its prompt, a draft stands in it" if composer else "it is at its prompt"
    if not bad_model:
        return Screen(State.IDLE, what, composer, background=background)
    return Screen(
        State.IDLE,
        f"{what}; it cannot use the model {bad_model}",
        composer,
        background=background,
        obstacle=Obstacle.BAD_MODEL,
        detail=bad_model,
    )


def _footer(below: Sequence[str], box: _Box) -> list[str]:
    """What the footer's first paragraph says, part by part.

    A menu's rows are no footer, their descriptions are anybody's words; nor is the list of tasks below it.
    """
    rows = _paragraph(below)
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
    more = takewhile(lambda r: not r.lstrip().startswith(("⎿", "❯")), _paragraph(above[last:])[1:])
    text = _line([row[2:], *more])
    if _WAITING.match(text):
        return text, True
    return (text if _SPINS.search(text) and not _DONE.match(text) else None), True


def _queue(above: Sequence[str]) -> bool:
    """Whether something indented stands directly on the box: chat keeps a blank line between."""
    return bool(above) and above[-1].startswith("  ")


def _heads_a_queue(above: Sequence[str]) -> bool:
    """Whether one of those rows begins a message: as in the chat, but indented."""
    for row in reversed(above):
        if _indent(row) < 2:
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
        return _short(f"{why}, retrying in {wait}" + (f" (attempt {attempt})" if attempt else ""))
    if _WAITING.match(spinner):
        return _short(f"it is {spinner[0].lower()}{spinner[1:]}")
    return _short(f"it is working: {spinner}")


def _bad_model(above: Sequence[str]) -> str:
    """The model that the API does not know, if that is the last thing that claude said of itself."""
    last = next((n for n in range(len(above) - 1, -1, -1) if above[n].startswith(("●", "⏺", "❯"))), None)
    if last is None:
        return ""
    found = re.match(
        r"\S There's an issue with the selected model \((.+?)\)", _line(_paragraph(above[last:]))
    )
    return found[1] if found else ""


# ------------------------------------------------------------------------------------------------- in a dialog

_OPTION = re.compile(r"(?P<before> {0,3}(?:❯ | {2}| ))(?P<number>\d{1,2})\. *(?P<label>\S.*)")
"""A narrow pane takes the space behind the number (seen at 50 columns)."""
_KEYS = re.compile(
    r"(?:^|[·(,]\s*|\bor )"
    r"(?:esc(?:ape)?|enter|return|space|tab|shift\+\w+|ctrl[+-]\w|any key|[←→↑↓/]+|\w)(?:/\S+| \S+ keys)? to \w+",
    re.IGNORECASE,
)
_CHAT = re.compile(r"(?:[●⏺] |❯ (?!\d+\.|\()| {2}⎿ )")
_HEADER = re.compile(r"(?:←\s+| )[☐☒✔]\s.*")


@dataclass(frozen=True, slots=True)
class _Dialog:
    rows: Sequence[str]
    """All of it that is on the screen, from below its first rule."""
    head: Sequence[str]
    """The rows above its first option; all of them when there is none."""
    options: Sequence[str]
    """Their labels, without what wraps into further rows."""
    last: Sequence[str]
    """Its last paragraph: what keys do, if it says so."""
    ruled: bool
    """Whether a rule parts it from the chat."""

    @property
    def question(self) -> str:
        """The paragraph directly above the options."""
        rows: list[str] = []
        for row in reversed(self.head):
            if not row.strip(" ╌─"):
                if rows:
                    break
            else:
                rows.insert(0, row)
        return _line(rows)

    @property
    def asks_leave(self) -> bool:
        """Whether it asks whether claude may do something."""
        return (
            len(self.options) > 1
            and self.options[0].startswith("Yes")
            and bool(_MAY_IT.search(self.question))
        )

    @property
    def title(self) -> str:
        return next((row.strip() for row in self.rows if row.strip(" ─╌")), "")


def _in_a_dialog(rows: Sequence[str]) -> Screen | None:
    dialog = _dialog(rows)
    if dialog is None:
        return None
    # Questions first: their options are an agent's own words, which may be those of a dialog of the first run.
    return _question(dialog) or _first_run(dialog) or _permission(dialog) or _menu(dialog)


def _dialog(rows: Sequence[str]) -> _Dialog | None:
    """What stands below the last rule that is not itself part of the dialog.

    A dialog that is taller than the pane has no rule on the screen; then all that is seen must be of it.
    """
    rules = [number for number, row in enumerate(rows) if _is_rule(row)]
    first, labels = _options(rows)
    starts = [n for n in rules if first is None or n < first]
    start = starts[-1] + 1 if starts else 0
    own = rows[start:]
    if any(_CHAT.match(row) for row in own):
        return None
    head = rows[start:first] if first is not None else own
    return _Dialog(own, head, labels, _last_paragraph(own), bool(starts))


def _options(rows: Sequence[str]) -> tuple[int | None, list[str]]:
    """Where the last list of options begins, and its labels; (None, []) if it is none that can be answered.

    It counts down to 1 from the bottom in one column, and one of its numbers has `❯` before it. The last of
    them stands below the last rule: what is above that may be quoted, but for the rest of a question's options.
    """
    floor = max((number for number, row in enumerate(rows) if _is_rule(row)), default=-1)
    labels: list[str] = []
    column: int | None = None
    expected: int | None = None
    chosen = 0
    for number in range(len(rows) - 1, -1, -1):
        found = _OPTION.fullmatch(rows[number])
        if found is None or (column is not None and found.end("before") != column):
            continue
        if expected is None and number < floor:
            break
        if expected is not None and int(found["number"]) != expected:
            continue
        column = found.end("before")
        expected = int(found["number"]) - 1
        chosen += "❯" in found["before"]
        labels.insert(0, found["label"])
        if expected == 0:
            return (number, labels) if chosen == 1 else (None, [])
    return None, []


def _last_paragraph(rows: Sequence[str]) -> list[str]:
    return list(reversed(list(takewhile(bool, reversed(rows)))))


_ASKED_FIRST: Sequence[tuple[Obstacle, str, re.Pattern[str]]] = (
    (Obstacle.TRUST, "option", re.compile(r"Yes, I trust ")),
    (Obstacle.BYPASS_WARNING, "option", re.compile(r"Yes, I accept")),
    (Obstacle.IMPORTS, "option", re.compile(r"Yes, allow external imports")),
    (Obstacle.API_KEY, "question", re.compile(r"Do you want to use this API key")),
    (Obstacle.MCP_SERVER, "title", re.compile(r"(New|\d+ new) MCP servers? found")),
    (
        Obstacle.LOGIN,
        "head",
        re.compile(r" {0,2}(Select login method|Paste code here|Browser didn.t open|Login successful)"),
    ),
    (Obstacle.ONBOARDING, "head", re.compile(r" {0,2}(Let's get started|Security notes:)")),
    # /theme asks the same below a rule, and offers keys.
    (Obstacle.ONBOARDING, "bare", re.compile(r" {0,2}Choose the text style that looks")),
)
"""How each first-run dialog is known, by the part of it that is claude's own and cannot be quoted."""


def _first_run(dialog: _Dialog) -> Screen | None:
    for obstacle, where, pattern in _ASKED_FIRST:
        texts: Sequence[str] = {
            "option": dialog.options,
            "question": [dialog.question] if dialog.options else [],
            "title": [dialog.title],
            "head": [] if dialog.asks_leave else dialog.head,
            "bare": [] if dialog.ruled or _LEAVES.search(_line(dialog.last)) else dialog.head,
        }[where]
        if any(pattern.match(text) for text in texts):
            return Screen(
                State.BLOCKED,
                f"it has not started: {_REASON_WORDS[obstacle]}",
                hint="run claude in a terminal of your own, in the same directory, and answer it there",
                obstacle=obstacle,
            )
    return None


_TALK = "Chat about this"
_OPEN_TALK = re.compile(rf"(?:❯ )?\d+\. ?{_TALK}")
"""The last option of every question, below a rule of its own."""
_CHOOSE = "choose an option in its terminal; Escape declines"


def _question(dialog: _Dialog) -> Screen | None:
    if _OPEN_TALK.match(dialog.title):
        # All of the question but its last option is above the top of the pane.
        return Screen(State.QUESTION, "it asks something", hint=_CHOOSE)
    if not dialog.options:
        return None
    if not _HEADER.fullmatch(dialog.rows[0]) and dialog.options[-1] != _TALK:
        return None
    asked = dialog.question if dialog.question != dialog.title else "something"
    return Screen(State.QUESTION, f"it asks: {_short(asked)}", hint=_CHOOSE)


_MAY_IT = re.compile(r"(^|\s)(Do you want to|Would you like to proceed|Claude wants to)\b")
_PLAN = re.compile(r"Exit plan mode\?|(^|\s)Would you like to proceed\?|Claude wants to exit plan mode")
_ACTS = {"Edit file": "edit a file", "Create file": "create a file", "Read file": "read a file"}


def _permission(dialog: _Dialog) -> Screen | None:
    if not dialog.asks_leave:
        return None
    return Screen(
        State.PERMISSION,
        _short(f"it asks{_asked(dialog)}"),
        hint="allow or refuse it in its terminal; Escape refuses",
    )


def _asked(dialog: _Dialog) -> str:
    if _PLAN.search(dialog.question):
        return " whether to carry out its plan"
    after = [row for row in dialog.head if row.strip(" ─╌")][1:]
    first = after[0].strip() if after else ""
    if dialog.title == "Bash command" and first:
        return f" whether to run a command: {first}"
    if dialog.title in _ACTS and first:
        return f" whether to {_ACTS[dialog.title]}: {first}"
    return f": {dialog.question}"


_LEAVES = re.compile(
    r"\b(?P<key>esc(?:ape)?|q|ctrl[+-]\w|enter|any key)"
    r" to (?:cancel|close|exit|quit|go back|return|dismiss|toggle|continue)\b",
    re.IGNORECASE,
)


def _menu(dialog: _Dialog) -> Screen | None:
    """Anything else that takes the box's place: options, or a title and a line that says what keys do."""
    # What stands at the right is no part of a line that wraps at the left.
    keys = _line([re.split(r" {2,}", row.strip())[0] for row in dialog.last])
    leaves = sorted(found["key"].capitalize() for found in _LEAVES.finditer(keys))
    titled = len(dialog.last) < sum(map(bool, dialog.rows)) and _KEYS.search(keys)
    # What is left of a permission dialog that is taller than the pane does not say what it is.
    if not dialog.ruled and dialog.options and dialog.options[0].startswith("Yes"):
        return None
    # The lower end of a draft that is taller than the pane has a rule and a footer, too.
    if not (dialog.options or (dialog.ruled and (leaves or titled))):
        return None
    title = _short(re.split(r" · | {2,}", dialog.title)[0], 60) if dialog.ruled else ""
    what = f"the {title} dialog is open" if title and titled else f"a dialog is open: {title}".rstrip(": ")
    key = "Escape" if "Esc" in leaves or not leaves else leaves[0]
    return Screen(State.DIALOG, what, hint=f"close it in its terminal: {key}")


_REASON_WORDS = {
    Obstacle.ONBOARDING: "it wants to be set up",
    Obstacle.TRUST: "it asks whether the directory is trusted",
    Obstacle.LOGIN: "it asks for a login",
    Obstacle.API_KEY: "it asks whether to use the API key of its environment",
    Obstacle.BYPASS_WARNING: "it asks to accept what bypassing permissions means",
    Obstacle.MCP_SERVER: "it asks about an MCP server of the project",
    Obstacle.IMPORTS: "it asks about imports in CLAUDE.md",
    Obstacle.BYPASS_AS_ROOT: "it does not bypass permissions as root",
    Obstacle.UNKNOWN_OPTION: "it does not know an option",
    Obstacle.BAD_CHOICE: "an option has a value that it does not know",
    Obstacle.BAD_SESSION_ID: "its session id is not a UUID",
    Obstacle.SESSION_ID_IN_USE: "its session id is in use",
    Obstacle.NO_CONVERSATION: "there is no such conversation to resume",
    Obstacle.NO_FILE: "a file is not there",
    Obstacle.NO_CONNECTION: "it could not reach Anthropic",
    Obstacle.BAD_MODEL: "it cannot use its model",
}


def reason_words(obstacle: Obstacle) -> str:
    """What `obstacle` is, as the end of a sentence."""
    return _REASON_WORDS[obstacle]
