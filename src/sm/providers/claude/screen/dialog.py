# ruff: noqa: RUF001, RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""What takes the input box's place, and the keys with it: questions, permissions, menus, views."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sm.providers.claude.screen.rows import is_rule, last_paragraph, one_line
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State, short

OPTION = re.compile(r"(?P<before> {0,3}(?:❯ | {2}| ))(?P<number>\d{1,2})\. *(?P<label>\S.*)")
"""The row that an option begins in. A narrow pane takes the space behind the number (seen at 50 columns)."""
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
        return one_line(rows)

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


def in_a_dialog(rows: Sequence[str]) -> ScreenContent | None:
    """What the dialog is that these rows end with; None when they end with none that is known."""
    dialog = _dialog(rows)
    if dialog is None:
        return None
    # Questions first: their options are an agent's own words, which may be those of a dialog of the first run.
    return _question(dialog) or _first_run(dialog) or _permission(dialog) or _menu(dialog)


def _dialog(rows: Sequence[str]) -> _Dialog | None:
    """What stands below the last rule that is not itself part of the dialog.

    A dialog that is taller than the pane has no rule on the screen; then all that is seen must be of it.
    """
    rules = [number for number, row in enumerate(rows) if is_rule(row)]
    first, labels = _options(rows)
    starts = [n for n in rules if first is None or n < first]
    start = starts[-1] + 1 if starts else 0
    own = rows[start:]
    if any(_CHAT.match(row) for row in own):
        return None
    head = rows[start:first] if first is not None else own
    return _Dialog(own, head, labels, last_paragraph(own), bool(starts))


def _options(rows: Sequence[str]) -> tuple[int | None, list[str]]:
    """Where the last list of options begins, and its labels; (None, []) if it is none that can be answered.

    It counts down to 1 from the bottom in one column, and one of its numbers has `❯` before it. The last of
    them stands below the last rule: what is above that may be quoted, but for the rest of a question's options.
    """
    floor = max((number for number, row in enumerate(rows) if is_rule(row)), default=-1)
    labels: list[str] = []
    column: int | None = None
    expected: int | None = None
    chosen = 0
    for number in range(len(rows) - 1, -1, -1):
        found = OPTION.fullmatch(rows[number])
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


def _first_run(dialog: _Dialog) -> ScreenContent | None:
    for obstacle, where, pattern in _ASKED_FIRST:
        texts: Sequence[str] = {
            "option": dialog.options,
            "question": [dialog.question] if dialog.options else [],
            "title": [dialog.title],
            "head": [] if dialog.asks_leave else dialog.head,
            "bare": [] if dialog.ruled or _LEAVES.search(one_line(dialog.last)) else dialog.head,
        }[where]
        if any(pattern.match(text) for text in texts):
            return ScreenContent(
                State.BLOCKED,
                f"it has not started: {obstacle}",
                hint="run claude in a terminal of your own, in the same directory, and answer it there",
                obstacle=obstacle,
            )
    return None


_TALK = "Chat about this"
_OPEN_TALK = re.compile(rf"(?:❯ )?\d+\. ?{_TALK}")
"""The last option of every question, below a rule of its own."""
_CHOOSE = "choose an option in its terminal; Escape declines"


def _question(dialog: _Dialog) -> ScreenContent | None:
    if _OPEN_TALK.match(dialog.title):
        # All of the question but its last option is above the top of the pane.
        return ScreenContent(State.QUESTION, "it asks something", hint=_CHOOSE)
    if not dialog.options:
        return None
    if not _HEADER.fullmatch(dialog.rows[0]) and dialog.options[-1] != _TALK:
        return None
    asked = dialog.question if dialog.question != dialog.title else "something"
    return ScreenContent(State.QUESTION, f"it asks: {short(asked)}", hint=_CHOOSE)


_MAY_IT = re.compile(r"(^|\s)(Do you want to|Would you like to proceed|Claude wants to)\b")
_PLAN = re.compile(r"Exit plan mode\?|(^|\s)Would you like to proceed\?|Claude wants to exit plan mode")
_ACTS = {"Edit file": "edit a file", "Create file": "create a file", "Read file": "read a file"}


def _permission(dialog: _Dialog) -> ScreenContent | None:
    if not dialog.asks_leave:
        return None
    return ScreenContent(
        State.PERMISSION,
        short(f"it asks{_asked(dialog)}"),
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


def _menu(dialog: _Dialog) -> ScreenContent | None:
    """Anything else that takes the box's place: options, or a title and a line that says what keys do."""
    # What stands at the right is no part of a line that wraps at the left.
    keys = one_line([re.split(r" {2,}", row.strip())[0] for row in dialog.last])
    leaves = sorted(found["key"].capitalize() for found in _LEAVES.finditer(keys))
    titled = len(dialog.last) < sum(map(bool, dialog.rows)) and _KEYS.search(keys)
    # What is left of a permission dialog that is taller than the pane does not say what it is.
    if not dialog.ruled and dialog.options and dialog.options[0].startswith("Yes"):
        return None
    # The lower end of a draft that is taller than the pane has a rule and a footer, too.
    if not (dialog.options or (dialog.ruled and (leaves or titled))):
        return None
    title = short(re.split(r" · | {2,}", dialog.title)[0], 60) if dialog.ruled else ""
    what = f"the {title} dialog is open" if title and titled else f"a dialog is open: {title}".rstrip(": ")
    key = "Escape" if "Esc" in leaves or not leaves else leaves[0]
    return ScreenContent(State.DIALOG, what, hint=f"close it in its terminal: {key}")


_OTHERS = re.compile(r"enter to \w+ · ")


def among_agents(rows: Sequence[str]) -> ScreenContent | None:
    """The view of all its user's agents (`←` at an empty prompt), whose box starts another claude. No footer of the
    input box, and no dialog, writes its keys in small letters (2.1.197).
    """
    last = max((number for number, row in enumerate(rows) if is_rule(row)), default=-1)
    if last < 0 or not _OTHERS.match(one_line(rows[last + 1 :])):
        return None
    # Escape ends claude there (seen).
    return ScreenContent(
        State.DIALOG, "the view of its agents is open", hint="open the session in its terminal: Enter"
    )
