# ruff: noqa: RUF001, RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""Reads screens that replace the input box: questions, permissions, menus, views."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sm.providers.claude.screen.rows import is_rule, last_paragraph, one_line
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State, short

OPTION = re.compile(r"(?P<before> {0,3}(?:❯ | {2}| ))(?P<number>\d{1,2})\. *(?P<label>\S.*)")
"""The first row of an option. A narrow pane drops the space after the number (measured at 50 columns)."""
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
    """The visible rows of the dialog, below its first rule."""
    head: Sequence[str]
    """The rows above the first option; all rows without options."""
    options: Sequence[str]
    """The labels, without wrapped rows."""
    last: Sequence[str]
    """The last paragraph, which may describe keys."""
    ruled: bool
    """A rule separates the dialog from the chat."""

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
    def is_permission(self) -> bool:
        return (
            len(self.options) > 1
            and self.options[0].startswith("Yes")
            and bool(_MAY_IT.search(self.question))
        )

    @property
    def title(self) -> str:
        return next((row.strip() for row in self.rows if row.strip(" ─╌")), "")


def read_dialog_screen(rows: Sequence[str]) -> ScreenContent | None:
    """The dialog at the end of these rows; None: no known dialog."""
    dialog = _dialog(rows)
    if dialog is None:
        return None
    # Questions first: an agent writes their options and could imitate a first-run dialog.
    known = _question(dialog) or _first_run(dialog) or _permission(dialog)
    return known or _usage_limit(dialog) or _menu(dialog)


def _dialog(rows: Sequence[str]) -> _Dialog | None:
    """The rows below the last rule outside the dialog.

    A dialog taller than the pane has no visible rule; then all visible rows must belong to the dialog.
    """
    rules = [number for number, row in enumerate(rows) if is_rule(row)]
    first, labels = _options(rows)
    starts = [n for n in rules if first is None or n < first]
    start = starts[-1] + 1 if starts else 0
    dialog_rows = rows[start:]
    if any(_CHAT.match(row) for row in dialog_rows):
        return None
    head = rows[start:first] if first is not None else dialog_rows
    return _Dialog(dialog_rows, head, labels, last_paragraph(dialog_rows), bool(starts))


def _options(rows: Sequence[str]) -> tuple[int | None, list[str]]:
    """The first row and the labels of the last list of options; (None, []): no list that can be answered.

    The numbers count down to 1 from the bottom in one column, and exactly one has `❯` before it. The last option is
    below the last rule, because rows above may be quoted, except for the other options of a question.
    """
    floor = max((number for number, row in enumerate(rows) if is_rule(row)), default=-1)
    labels: list[str] = []
    column: int | None = None
    expected: int | None = None
    chosen = 0
    for number in range(len(rows) - 1, -1, -1):
        option = OPTION.fullmatch(rows[number])
        if option is None or (column is not None and option.end("before") != column):
            continue
        if expected is None and number < floor:
            break
        if expected is not None and int(option["number"]) != expected:
            continue
        column = option.end("before")
        expected = int(option["number"]) - 1
        chosen += "❯" in option["before"]
        labels.insert(0, option["label"])
        if expected == 0:
            return (number, labels) if chosen == 1 else (None, [])
    return None, []


_ASKED_FIRST: Sequence[tuple[Obstacle, str, re.Pattern[str]]] = (
    (Obstacle.TRUST, "option", re.compile(r"Yes, I trust ")),
    (Obstacle.BYPASS_WARNING, "option", re.compile(r"Yes, I accept")),
    (Obstacle.IMPORTS, "option", re.compile(r"Yes, allow external imports")),
    (Obstacle.API_KEY, "question", re.compile(r"Do you want to use this API key")),
    (
        Obstacle.API_KEY,
        "title",
        re.compile(r"Detected a custom API key in your environment"),
    ),  # 2.1.332: no numbers
    (Obstacle.SETTINGS, "title", re.compile(r"Settings Error")),
    (Obstacle.MCP_SERVER, "title", re.compile(r"(New|\d+ new) MCP servers? found")),
    (
        Obstacle.LOGIN,
        "head",
        re.compile(r" {0,2}(Select login method|Paste code here|Browser didn.t open|Login successful)"),
    ),
    (Obstacle.ONBOARDING, "head", re.compile(r" {0,2}(Let's get started|Security notes:)")),
    # /theme has the same text below a rule, and lists keys.
    (Obstacle.ONBOARDING, "bare", re.compile(r" {0,2}Choose the text style that looks")),
)
"""Patterns of first-run dialogs, for a part written by claude, which cannot be quoted text."""


def _first_run(dialog: _Dialog) -> ScreenContent | None:
    for obstacle, where, pattern in _ASKED_FIRST:
        texts: Sequence[str] = {
            "option": dialog.options,
            "question": [dialog.question] if dialog.options else [],
            "title": [dialog.title],
            "head": [] if dialog.is_permission else dialog.head,
            "bare": [] if dialog.ruled or _LEAVES.search(one_line(dialog.last)) else dialog.head,
        }[where]
        if any(pattern.match(text) for text in texts):
            return blocked_start(obstacle)
    return None


def blocked_start(obstacle: Obstacle) -> ScreenContent:
    """The content of a first-run dialog."""
    return ScreenContent(
        State.BLOCKED,
        f"claude has not started: {obstacle}",
        hint="run claude yourself in the same directory and answer the question",
        obstacle=obstacle,
    )


_TALK = "Chat about this"
_OPEN_TALK = re.compile(rf"(?:❯ )?\d+\. ?{_TALK}")
"""The last option of every question, below a separate rule."""
_CHOOSE = "choose an option in the terminal; Escape declines"


def _question(dialog: _Dialog) -> ScreenContent | None:
    if _OPEN_TALK.match(dialog.title):
        # Only the last option of the question is visible.
        return ScreenContent(State.QUESTION, "claude asks a question", hint=_CHOOSE)
    if not dialog.options:
        return None
    if not _HEADER.fullmatch(dialog.rows[0]) and dialog.options[-1] != _TALK:
        return None
    question = dialog.question if dialog.question != dialog.title else "a question"
    return ScreenContent(State.QUESTION, f"claude asks: {short(question)}", hint=_CHOOSE)


_MAY_IT = re.compile(r"(^|\s)(Do you want to|Would you like to proceed|Claude wants to)\b")
_PLAN = re.compile(r"Exit plan mode\?|(^|\s)Would you like to proceed\?|Claude wants to exit plan mode")
_ACTS = {"Edit file": "edit a file", "Create file": "create a file", "Read file": "read a file"}


def _permission(dialog: _Dialog) -> ScreenContent | None:
    if not dialog.is_permission:
        return None
    return ScreenContent(
        State.PERMISSION,
        short(f"claude asks{_question_text(dialog)}"),
        hint="allow or refuse the request in the terminal; Escape refuses",
    )


def _question_text(dialog: _Dialog) -> str:
    if _PLAN.search(dialog.question):
        return " for approval of its plan"
    after = [row for row in dialog.head if row.strip(" ─╌")][1:]
    first = after[0].strip() if after else ""
    if dialog.title == "Bash command" and first:
        return f" to run a command: {first}"
    if dialog.title in _ACTS and first:
        return f" to {_ACTS[dialog.title]}: {first}"
    return f": {dialog.question}"


_STOPS = frozenset({"Stop and wait for limit to reset", "Stop"})
"""The option that changes nothing. It is first or last, after offers to pay for more."""
_ESCAPES = "Enter to confirm · Esc to cancel"


def _usage_limit(dialog: _Dialog) -> ScreenContent | None:
    if not dialog.ruled or one_line(dialog.last) != _ESCAPES:
        return None
    asks = dialog.title == "What do you want to do?" and dialog.question == dialog.title
    stops = bool(_STOPS & {*dialog.options[:1], *dialog.options[-1:]})
    if not ((asks and stops) or _offers_credits(dialog)):
        return None
    what = "the dialog about the usage limit is open"
    return ScreenContent(State.DIALOG, what, hint=_close_with(["Esc"]), usage_limit=True)


_CREDITS_TITLE = re.compile(r"What do you want to do\? +Usage credit balance: \S.*")
_CREDITS_OPTIONS = re.compile(
    r" {2}(?P<pointer>❯| ) (?P<label>Adjust monthly spend limit: \S.*|Wait for limit to reset(?: {2,}Resets \S.*)?)"
)


def _offers_credits(dialog: _Dialog) -> bool:
    """True for the dialog about the limit of an account with usage credits. Its options have no numbers.

    Enter on its first option, which is selected, changes how much the account may spend.
    """
    if _CREDITS_TITLE.fullmatch(dialog.title) is None or dialog.options:
        return False
    options = [found for row in dialog.rows if (found := _CREDITS_OPTIONS.fullmatch(row)) is not None]
    labels = [option["label"].split(maxsplit=1)[0] for option in options]
    pointers = sum(row.startswith("  ❯ ") for row in dialog.rows)
    return labels == ["Adjust", "Wait"] and pointers == 1


_LEAVES = re.compile(
    r"\b(?P<key>esc(?:ape)?|q|ctrl[+-]\w|enter|any key)"
    r" to (?:cancel|close|exit|quit|go back|return|dismiss|toggle|continue)\b",
    re.IGNORECASE,
)


_TRANSCRIPT_VIEW = "Showing detailed transcript"


def _menu(dialog: _Dialog) -> ScreenContent | None:
    """Read any other dialog: a list of options, or a title and a line that describes keys."""
    # Right-aligned text does not belong to the wrapped line at the left.
    keys = one_line([re.split(r" {2,}", row.strip())[0] for row in dialog.last])
    leaves = sorted(match["key"].capitalize() for match in _LEAVES.finditer(keys))
    titled = len(dialog.last) < sum(map(bool, dialog.rows)) and _KEYS.search(keys)
    # The visible end of a permission dialog taller than the pane does not tell its subject.
    if not dialog.ruled and dialog.options and dialog.options[0].startswith("Yes"):
        return None
    # The end of a draft taller than the pane also has a rule and a footer.
    if not (dialog.options or (dialog.ruled and (leaves or titled))):
        return None
    if _TRANSCRIPT_VIEW in keys:
        return ScreenContent(
            State.DIALOG, "the transcript view is open (Ctrl+O closes it)", hint=_close_with(leaves)
        )
    title = short(re.split(r" · | {2,}", dialog.title)[0], 60) if dialog.ruled else ""
    what = f"the {title} dialog is open" if title and titled else f"a dialog is open: {title}".rstrip(": ")
    return ScreenContent(State.DIALOG, what, hint=_close_with(leaves))


def _close_with(leaves: Sequence[str]) -> str:
    key = "Escape" if "Esc" in leaves or not leaves else leaves[0]
    return f"close the dialog in the terminal: press {key}"


_OTHERS = re.compile(r"enter to \w+ · ")


def read_agents_view(rows: Sequence[str]) -> ScreenContent | None:
    """Read the view that lists all agents of the user (`←` at an empty prompt). Its input box starts a new agent.

    Only this view writes its keys in lower case (2.1.197).
    """
    last = max((number for number, row in enumerate(rows) if is_rule(row)), default=-1)
    if last < 0 or not _OTHERS.match(one_line(rows[last + 1 :])):
        return None
    # Escape ends claude in this view (measured).
    return ScreenContent(
        State.DIALOG,
        "the list of claude's agents is open",
        hint="open the session in the terminal: press Enter",
    )
