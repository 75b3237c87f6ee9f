# ruff: noqa: RUF001, RUF002  (claude's pointer looks like a greater-than sign, and is not one)
"""Reads screens that replace the input box: questions, permissions, menus, views."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import dropwhile

from sm.core.dataclass import dataclass
from sm.providers.claude.dialect import NOTHING, current
from sm.providers.claude.screen.rows import indent, is_rule, last_paragraph, one_line
from sm.providers.claude.screen.states import Obstacle, ScreenContent, State, short

OPTION = re.compile(r"(?P<before> {0,3}(?:❯ | {2}| ))(?P<number>\d{1,2})\. *(?P<label>\S.*)")
"""The first row of an option. A narrow pane drops the space after the number (measured at 50 columns)."""
_KEYS = re.compile(
    r"(?:^|[·(,]\s*|\bor )"
    r"(?:esc(?:ape)?|enter|return|space|tab|shift\+\w+|ctrl[+-]\w|any key|[←→↑↓/]+|\w)(?:/\S+| \S+ keys)? to \w+",
    re.IGNORECASE,
)
_CHAT = re.compile(r"❯ (?!\d+\.|\()| {2}⎿ ")
_HEADER = re.compile(r"(?:←\s+| )(?P<mark>\S)\s.*")
_NUMBERED = re.compile(r"(?:❯ )?\d+\. ?(?P<label>.*)")


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
            and self.options[0].startswith(current().texts("dialog.allow"))
            and current().phrases("dialog.permission").within(self.question)
        )

    @property
    def title(self) -> str:
        return next((row.strip() for row in self.rows if row.strip(" ─╌")), "")


def read_dialog_screen(rows: Sequence[str]) -> ScreenContent | None:
    """The dialog at the end of these rows, or None for no known dialog."""
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
    messages = tuple(f"{glyph} " for glyph in current().texts("glyphs.message"))
    if any(_CHAT.match(row) or row.startswith(messages) for row in dialog_rows):
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
    return _unnumbered_options(rows)


_SELECTED = re.compile(r" {1,3}❯ +(?P<label>\S.*)")


def _unnumbered_options(rows: Sequence[str]) -> tuple[int | None, list[str]]:
    """As `_options`, for a version that draws no numbers: the rows around the pointer with their text in its column.

    Nothing or a line of keys follows. The pointer is indented, as that of the input box never is.
    """
    if current().choose("dialog.numbered", NOTHING).value is not False:
        return None, []
    pointers = [number for number, row in enumerate(rows) if _SELECTED.fullmatch(row)]
    found = _SELECTED.fullmatch(rows[pointers[0]]) if len(pointers) == 1 else None
    if found is None or any(is_rule(row) for row in rows[pointers[0] :]):
        return None, []
    column, first, end = found.start("label"), pointers[0], pointers[0] + 1
    while first and indent(rows[first - 1]) >= column:
        first -= 1
    while end < len(rows) and indent(rows[end]) >= column:
        end += 1
    labels = [row[column:] for row in rows[first:end] if len(row) > column and row[column] != " "]
    has_keys = _KEYS.search(one_line(last_paragraph(rows[end:]))) is not None
    return (first, labels) if len(labels) > 1 and (end == len(rows) or has_keys) else (None, [])


def _first_run(dialog: _Dialog) -> ScreenContent | None:
    for name, phrases in current().group("start"):
        obstacle, _, where = name.partition(".")
        if any(phrases.fit(text.strip()) is not None for text in _texts_at(dialog, where)):
            return blocked_start(Obstacle[obstacle.upper()])
    return None


def _texts_at(dialog: _Dialog, where: str) -> Sequence[str]:
    """The texts of a part of a dialog that claude writes, so that they cannot be quoted."""
    match where:
        case "option":
            return dialog.options
        case "question":
            return [dialog.question] if dialog.options else []
        case "title":
            return [dialog.title]
        case "head":
            return [] if dialog.is_permission else _near_the_edge(dialog.head)
        case _:  # `bare`: a menu with the same text has a rule, or lists keys
            is_menu = dialog.ruled or _leaving_keys(one_line(dialog.last))
            return [] if is_menu else _near_the_edge(dialog.head)


def _near_the_edge(rows: Sequence[str]) -> Sequence[str]:
    """The rows that begin in one of the first three columns, where claude quotes nothing."""
    return [row for row in rows if indent(row) <= 2]


def blocked_start(obstacle: Obstacle) -> ScreenContent:
    """The content of a first-run dialog."""
    return ScreenContent(
        State.BLOCKED,
        f"claude has not started: {obstacle}",
        hint="run claude yourself in the same directory and answer the question",
        obstacle=obstacle,
    )


_CHOOSE = "choose an option in the terminal; Escape declines"


def _question(dialog: _Dialog) -> ScreenContent | None:
    last_options = current().texts("dialog.question_last")
    option = _NUMBERED.match(dialog.title)
    if option is not None and option["label"].startswith(last_options):
        # Only the last option of the question is visible.
        return ScreenContent(State.QUESTION, "claude asks a question", hint=_CHOOSE)
    if not dialog.options:
        return None
    if not _is_question_header(dialog.rows[0]) and dialog.options[-1] not in last_options:
        return None
    question = dialog.question if dialog.question != dialog.title else "a question"
    return ScreenContent(State.QUESTION, f"claude asks: {short(question)}", hint=_CHOOSE)


def _is_question_header(row: str) -> bool:
    header = _HEADER.fullmatch(row)
    return header is not None and header["mark"] in current().texts("dialog.question_marks")


def _permission(dialog: _Dialog) -> ScreenContent | None:
    if not dialog.is_permission:
        return None
    return ScreenContent(
        State.PERMISSION,
        short(f"claude asks{_question_text(dialog)}"),
        hint="allow or refuse the request in the terminal; Escape refuses",
    )


def _question_text(dialog: _Dialog) -> str:
    words = current()
    if words.phrases("dialog.plan").within(dialog.question):
        return " for approval of its plan"
    after = [row for row in dialog.head if row.strip(" ─╌")][1:]
    first = after[0].strip() if after else ""
    if dialog.title in words.texts("dialog.command") and first:
        return f" to run a command: {_framed(dialog.head) or first}"
    act = words.table("dialog.acts").get(dialog.title)
    if act is not None and first:
        return f" to {act}: {first}"
    return f": {dialog.question}"


def _framed(rows: Sequence[str]) -> str:
    """The first row in a frame, or empty if there is no frame.

    2.1.332 draws a frame around a command, with its description and perhaps a tip above. Rows that an agent has written
    are indented, also in the frame.
    """
    below = dropwhile(lambda row: not _FRAME.fullmatch(row), rows)
    return next((row.strip() for row in below if row and not _FRAME.fullmatch(row)), "")


_FRAME = re.compile("╌+")


def _usage_limit(dialog: _Dialog) -> ScreenContent | None:
    words = current()
    if not dialog.ruled or one_line(dialog.last) not in words.texts("usage_limit.keys"):
        return None
    asks = dialog.title in words.texts("usage_limit.title") and dialog.question == dialog.title
    stops = bool({*words.texts("usage_limit.stops")} & {*dialog.options[:1], *dialog.options[-1:]})
    if not ((asks and stops) or _offers_credits(dialog)):
        return None
    what = "the dialog about the usage limit is open"
    return ScreenContent(State.DIALOG, what, hint=_close_with(["Esc"]), usage_limit=True)


_CREDITS_OPTION = re.compile(r" {2}(?P<pointer>\S| ) (?P<label>\S.*)")


def _offers_credits(dialog: _Dialog) -> bool:
    """True for the dialog about the limit of an account with usage credits. Its options have no numbers.

    Enter on its first option, which is selected, changes how much the account may spend.
    """
    words = current()
    if words.phrases("usage_limit.credits_title").fit(dialog.title) is None:
        return False
    expected = [words.phrases(f"usage_limit.credits_{place}") for place in ("first", "second")]
    rows = [found for row in dialog.rows if (found := _CREDITS_OPTION.fullmatch(row)) is not None]
    order = [n for row in rows for n, phrases in enumerate(expected) if phrases.fit(row["label"]) is not None]
    pointers = sum(row["pointer"] == "❯" for row in rows)
    return order == [0, 1] and pointers == 1


def _leaving_keys(text: str) -> list[str]:
    """The keys that close a dialog by the line that describes its keys."""
    leaves = _leaving(current().texts("dialog.leaving")).finditer(text)
    return sorted(leave["key"].capitalize() for leave in leaves)


@cache
def _leaving(verbs: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(map(re.escape, verbs))
    return re.compile(rf"\b(?P<key>{_LEAVING_KEY}) to (?:{alternatives})\b", re.IGNORECASE)


_LEAVING_KEY = r"esc(?:ape)?|q|ctrl[+-]\w|enter|any key"


def _menu(dialog: _Dialog) -> ScreenContent | None:
    """Read any other dialog: a list of options, or a title and a line that describes keys."""
    # Right-aligned text does not belong to the wrapped line at the left.
    keys = one_line([re.split(r" {2,}", row.strip())[0] for row in dialog.last])
    leaves = _leaving_keys(keys)
    titled = len(dialog.last) < sum(map(bool, dialog.rows)) and _KEYS.search(keys)
    # The visible end of a permission dialog taller than the pane does not tell its subject.
    if not dialog.ruled and dialog.options and dialog.options[0].startswith(current().texts("dialog.allow")):
        return None
    # The end of a draft taller than the pane also has a rule and a footer.
    if not (dialog.options or (dialog.ruled and (leaves or titled))):
        return None
    if any(words in keys for words in current().texts("dialog.transcript_view")):
        return ScreenContent(
            State.DIALOG, "the transcript view is open (Ctrl+O closes it)", hint=_close_with(leaves)
        )
    title = short(re.split(r" · | {2,}", dialog.title)[0], 60) if dialog.ruled else ""
    what = f"the {title} dialog is open" if title and titled else f"a dialog is open: {title}".rstrip(": ")
    return ScreenContent(State.DIALOG, what, hint=_close_with(leaves))


def _close_with(leaves: Sequence[str]) -> str:
    key = "Escape" if "Esc" in leaves or not leaves else leaves[0]
    return f"close the dialog in the terminal: press {key}"


def read_agents_view(rows: Sequence[str]) -> ScreenContent | None:
    """Read the view that lists all agents of the user (`←` at an empty prompt). Its input box starts a new agent.

    Only this view writes its keys in lower case (2.1.197).
    """
    last = max((number for number, row in enumerate(rows) if is_rule(row)), default=-1)
    if last < 0 or current().phrases("dialog.agents_view").fit(one_line(rows[last + 1 :])) is None:
        return None
    # Escape ends claude in this view (measured).
    return ScreenContent(
        State.DIALOG,
        "the list of claude's agents is open",
        hint="open the session in the terminal: press Enter",
    )
