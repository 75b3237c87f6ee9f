"""The texts of `sm top` around its lists: head, chips, foot, help and details. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sm.board import KEYS, Board, BoardNeed, Chip, Target
from sm.board.details import count_line
from sm.board.tabs import CHANGES_KEYS
from sm.board.words import shown
from sm.core.lines import line
from sm.core.quotation import BAR, wrapped_at_blanks
from sm.core.request_lines import request_body
from sm.core.timestamps import span

Hint = tuple[str, str]
"""A key, and its effect."""

DETAILS: Hint = ("Enter", "details")
EQUAL_KEY = "="
_CHANGES: Mapping[str, str] = {f"{BAR}-": "red", f"{BAR}+": "green"}
NEW_WORKSPACE = "+"
"""The chip that creates a workspace. No slug has this name."""
KEYS_WIDTH = 13
"""The cells of the keys in the help, with the blank after them."""
VIEW_KEYS = (
    ("j k ↓ ↑", "Move the selection; g G: to the first or last line; PageUp PageDown"),
    ("Tab", "Switch between the region of what needs you and the list"),
    ("Enter", "Show the selected request or session in full"),
    (EQUAL_KEY, "Answer all requests that ask for the same as the selected one, after a list of them"),
    ("← → Space", "Fold and unfold the sessions below the selected one"),
    ("0-9", "Choose a workspace; while an open question with options is selected: answer it"),
    ("[ ]", "Choose the workspace before or after; on a page with tabs: another tab"),
    ("/", f"Filter: words, and {KEYS}"),
    ("S", "Next order: tree, needs me, age, cost, name"),
    (": Ctrl-K", "Choose an action, a workspace or a place from a list"),
    ("e", "Show the events, by type"),
    ("$", "Show tokens and cost: by tree, over time, by model"),
    ("T", "Show the timeline: the statuses of each session"),
    ("1-9", "On a page with tabs: show another tab"),
    (" ".join(CHANGES_KEYS), "On the page of a session, with its changes: another file or hunk"),
    ("A", "Show or hide archived sessions"),
    ("C", "Next colours: of the system, dark, light"),
    ("c", "Copy the sm command of the selection"),
    ("u", "Undo, for 5 seconds"),
    ("Esc", "Drop the filter"),
    ("?", "Show this help"),
    ("q Ctrl-Z", "Quit, or stop until fg. The agents keep running"),
)


def help_lines(target: Target) -> list[str]:
    """All keys. An action that is not possible now has its reason."""
    lines = [f"{keys:<12} {text}" for keys, text in VIEW_KEYS]
    lines += ["", "On the selected request or session:"]
    from sm.board import ACTIONS  # not before the first rows are on the screen

    for action in ACTIONS.values():
        reason = action.refusal(target)
        more = f"  [{reason}]" if reason else f"  = {action.command_line(target)}"
        lines.append(f"{action.key:<12} {action.title}{more}")
    return lines


def hanging(lines: Sequence[str], width: int, indent: int) -> list[str]:
    """The lines wrapped, with the further pieces of each one below its text, which begins at `indent`."""
    found = list[str]()
    for text in lines:
        first, *rest = wrapped_at_blanks(text, width)
        words = " ".join(rest)
        found += [
            first,
            *(f"{' ' * indent}{piece}" for piece in wrapped_at_blanks(words, width - indent) if rest),
        ]
    return found


def keys_of_changes() -> str:
    """The keys of the tab with the changes: `< >: file  { }: hunk`."""
    keys = dict[str, list[str]]()
    for key, jump in CHANGES_KEYS.items():
        keys.setdefault(jump.rpartition(" ")[2], []).append(key)
    return "  ".join(f"{' '.join(found)}: {noun}" for noun, found in keys.items())


def page_help(hint: str, *, has_tabs: bool, has_cursor: bool, has_changes: bool = False) -> list[str]:
    """The keys of a page. `hint`: those of its actions, two blanks apart."""
    moves = "Choose a span, whose numbers are in the last line" if has_cursor else "Scroll"
    lines = [f"{'j k arrows':<12} {moves}", f"{'g G':<12} Scroll to the begin or the end"]
    if has_changes:
        lines += [f"{key:<12} Go to the {jump}" for key, jump in CHANGES_KEYS.items()]
    if has_tabs:
        lines.append(f"{'[ ] Tab 1-9':<12} Another tab")
    return [*lines, f"{'Esc q Enter':<12} Back", *(["", *hint.split("  ")] if hint else [])]


def head(board: Board, lost_s: float | None, trouble: str, newer: str = "", unshown: str = "") -> str:
    """`newer`: the version of a daemon that is not of the version of this view. `unshown`: of a `Situation`."""
    parts = [f"sm top  {count_line(board.rows.values())}", f"order: {board.sort}"]
    if board.filter_text:
        parts.append(f"filter: {board.filter_text}")
        parts += board.filter.problems
    if board.waiting:
        parts.append(f"{board.waiting} new")
    if newer:
        parts.insert(0, f"the daemon has version {line(newer, 40)}: restart sm top")
    if unshown:
        parts.insert(0, unshown)
    if lost_s is not None:
        since = "" if board.revision is None else f", the list is {span(lost_s)} old"
        parts.insert(0, f"no daemon{since} ({line(trouble, 100)})")
    return " | ".join(parts)


def chips_in_sight(found: Sequence[Chip], chosen: str | None, width: int) -> Sequence[Chip]:
    """The chips for which `width` cells have room: `All`, the chosen one, and the nearest others."""
    place = next((number for number, chip in enumerate(found) if chip.slug == chosen), 0)
    room = width - _width(found[:1]) - len(NEW_WORKSPACE) - 2
    first, last = 1, len(found)
    while first < place and _width(found[first : place + 1]) > room:
        first += 1
    while last > max(first, place + 1) and _width(found[first:last]) > room:
        last -= 1
    return [*found[:1], *found[first:last]]


def _width(found: Sequence[Chip]) -> int:
    return sum(cell_len(_chip_text(chip)) + 1 for chip in found)


def chip_line(found: Sequence[Chip], chosen: str | None) -> Text:
    """The workspaces, and a chip that creates one."""
    text = Text()
    for chip in found:
        style = Style(reverse=chip.slug == chosen, bold=bool(chip.needs))
        text.append(_chip_text(chip), style)
        text.append(" ")
    return text.append(f" {NEW_WORKSPACE} ")


def chip_at(found: Sequence[Chip], column: int) -> str | None:
    """The slug of the chip in that column of the line: empty for all, or `NEW_WORKSPACE`. None if there is no chip."""
    begin = 0
    for chip in found:
        end = begin + cell_len(_chip_text(chip))
        if begin <= column < end:
            return chip.slug or ""
        begin = end + 1
    return NEW_WORKSPACE if begin <= column < begin + 3 else None


def _chip_text(chip: Chip) -> str:
    count = f" {chip.needs}!" if chip.needs else ""
    return f" {chip.key} {chip.label}{count} " if chip.key else f" {chip.label}{count} "


def detail_text(lines: Sequence[str]) -> Text:
    """Lines about a request or a session, with the colours of a change."""
    return Text("\n").join(map(detail_line, lines))


def detail_line(text: str) -> Text:
    """One line of `detail_text`."""
    return Text(text, _CHANGES.get(text.lstrip(" ")[:2], ""))


def lines_in(lines: Sequence[str], asked: int, height: int) -> Sequence[str]:
    """The lines for which there is room, the last of them says how much of the request is missing.

    `asked`: the number of the first lines that are the request itself. Without room for them, its head, tool and path
    go first, which the list of requests has too.
    """
    if asked <= height:
        return lines[:height]
    change = next((place for place, text in enumerate(lines[:asked]) if text == "change:"), 0)
    kept = lines[change:asked] if change else lines[1:asked]
    missing = len(kept) - height + 1
    return kept if missing <= 1 else [*kept[: height - 1], f"… {missing} more lines: Enter"]


def announcement(new: Sequence[BoardNeed]) -> str:
    """The first of new entries that need the person, and how many more there are."""
    more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
    return f"{new[0].label}: {new[0].text}{more}"


def titled(title: str, text: Text, width: int) -> Text:
    """A text below its title in a line."""
    rule = f"── {title} " if title else ""
    return Text("\n").join([Text(rule + "─" * max(0, width - cell_len(rule)), "dim"), text])


def request_hints(need: BoardNeed, equal: int = 0) -> Sequence[Hint]:
    """The keys that answer a request. `equal`: the number of requests that may be answered together with it."""
    request = need.request or {}
    match request.get("kind"):
        case "dialog":
            return (("o", "attach"), DETAILS)
        case "question" if request["cut"]:
            return (("o", "attach"), ("d", "deny"), DETAILS)
        case "question":
            count = len(request["questions"][0]["options"]) if len(request["questions"]) == 1 else 0
            choose = [(f"1-{count}" if count > 1 else "1", "choose")] if count else []
            return (*choose, ("t", "answer"), ("d", "deny"))
        case _:
            return (("a", "approve"), ("d", "deny"), *equal_hints(equal), DETAILS)


def equal_hints(count: int) -> Sequence[Hint]:
    """The key that answers so many requests together, or no key for 0."""
    return [(EQUAL_KEY, f"all {count} equal")] if count else ()


def keys_of_request(selected: Target, shown: Target, equal: int = 0) -> str:
    """The keys that answer the shown request. If only its session is selected, a key leads to it first.

    `equal`: the number of requests that may be answered together with it.
    """
    need = shown.need
    if need is None or need.request is None:
        return ""
    keys = "  ".join(f"{key}: {effect}" for key, effect in request_hints(need, equal))
    return keys if selected.need is not None else f"a: go to {need.key}, then {keys}"


def equal_lines(needs: Sequence[BoardNeed], words: str, now_s: float, width: int) -> list[str]:
    """The words of equal requests once, then each of them with its session and its age, then the keys."""
    asked, listed = needs[0].request or {}, list[str]()
    for need in needs:
        by = (
            f" (sub-agent {line(need.request['agent'])})"
            if need.request and need.request.get("agent")
            else ""
        )
        listed.append(f"  {need.key:<5} {span(max(0.0, now_s - need.since_s)):>5}  {need.label}{by}")
    uses = request_body(dict(asked), width, commands=False)
    return [words, *uses, "", *listed, "", f"a: approve all {len(needs)}  d: deny all {len(needs)}"]


def question_text(question: Mapping[str, Any]) -> str:
    """A question with its numbered options, for a prompt."""
    options = "  ".join(f"{n}: {shown(option, 60)}" for n, option in enumerate(question["options"], 1))
    return "\n".join(filter(None, (shown(question["question"], 300), options)))
