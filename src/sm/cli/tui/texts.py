"""The texts of `sm top` around its lists: head, chips, foot, help and details. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from sm.board import ACTIONS, KEYS, Board, BoardNeed, Chip, NeedKind, Target
from sm.board.words import context_bar, count_of_tokens, dollars, shown
from sm.cli.display.requests import request_details
from sm.cli.display.sessions import session_block
from sm.cli.display.text import clock, line
from sm.cli.tui.cells import utc
from sm.core.quotation import wrapped
from sm.core.timestamps import iso, span

NEW_WORKSPACE = "+"
"""The chip that creates a workspace. No slug has this name."""
VIEW_KEYS = (
    ("j k ↓ ↑", "Move the selection; g G: to the first or last line; PageUp PageDown"),
    ("Tab", "Switch between the region of what needs you and the list"),
    ("Enter", "Show the selected request or session in full"),
    ("← → Space", "Fold and unfold the sessions below the selected one"),
    ("0-9", "Choose a workspace; while an open question with options is selected: answer it"),
    ("/", f"Filter: words, and {KEYS}"),
    ("S", "Next order: tree, needs me, age, cost, name"),
    (": Ctrl-K", "Choose an action from a list"),
    ("e", "Show the events, by type"),
    ("$", "Show tokens and cost: by tree, over time, by model"),
    ("T", "Show the timeline: the statuses of each session"),
    ("[ ] 1-9", "On a page with tabs: show another tab"),
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
    for action in ACTIONS.values():
        reason = action.refusal(target)
        more = f"  [{reason}]" if reason else f"  = {action.command_line(target)}"
        lines.append(f"{action.key:<12} {action.title}{more}")
    return lines


def head(board: Board, lost_s: float | None, trouble: str, newer: str = "") -> str:
    """`newer`: the version of a daemon that is not of the version of this view."""
    live = sum(row.is_live for row in board.rows.values())
    parts = [f"sm top  {live} live, {len(board.rows) - live} ended", f"order: {board.sort}"]
    if board.filter_text:
        parts.append(f"filter: {board.filter_text}")
        parts += board.filter.problems
    if board.waiting:
        parts.append(f"{board.waiting} new")
    if newer:
        parts.insert(0, f"the daemon has version {line(newer, 40)}: restart sm top")
    if lost_s is not None:
        since = "" if board.revision is None else f", the list is {span(lost_s)} old"
        parts.insert(0, f"no daemon{since} ({line(trouble, 100)})")
    return " | ".join(parts)


def chip_line(found: Sequence[Chip], chosen: str | None) -> Text:
    """The workspaces, and a chip that creates one."""
    text = Text()
    for chip in found:
        style = Style(reverse=chip.slug == chosen, bold=bool(chip.needs))
        text.append(_chip_text(chip), style)
        text.append(" ")
    return text.append(f" {NEW_WORKSPACE} ")


def chip_at(found: Sequence[Chip], column: int) -> str | None:
    """The slug of the chip in that column of the line; empty: all; `NEW_WORKSPACE`; None: there is none."""
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


def needs_title(found: Sequence[BoardNeed], quiet_s: float | None, now_s: float) -> str:
    if found:
        return f"Needs you: {len(found)}"
    if quiet_s is None:
        return "Needs you: loading"
    since = clock(iso(quiet_s), utc(now_s))
    return f"Nothing needs you since {since} ({span(max(0.0, now_s - quiet_s))})"


def details(target: Target, now_s: float, width: int) -> list[str]:
    """The selected request or session in full, in lines of at most `width` cells."""
    lines = list[str]()
    if target.request is not None:
        lines += [*request_lines(target.request, now_s, width), ""]
    elif target.need is not None and target.need.kind is not NeedKind.STALE:
        lines += [f"{target.need.key}: {target.need.text}", ""]
    if target.row is not None:
        lines += [*session_block(target.row.data, utc(now_s)), *_usage(target.row.data)]
    return _fitted(lines, width)


def request_lines(request: Mapping[str, Any], now_s: float, width: int) -> list[str]:
    """A request in full, in lines of at most `width` cells."""
    return _fitted(request_details(request, utc(now_s), width), width)


def _fitted(lines: Sequence[str], width: int) -> list[str]:
    return [piece for text in lines for piece in wrapped(text, max(10, width))]


def _usage(data: Mapping[str, Any]) -> list[str]:
    tree, tool = data["tree"], data["last_tool"]
    facts = [
        ("Tokens", count_of_tokens(data["tokens"])),
        ("Cost", dollars(data["cost_usd"])),
        ("Context", context_bar(data["context_percent"])),
    ]
    if tree["sessions"] > 1:
        below = f"{tree['sessions']} sessions ({tree['live']} live), {dollars(tree['cost_usd'])}"
        facts.append(("Tree", f"{below}, {count_of_tokens(tree['tokens'])} tokens"))
    if tool is not None:
        facts.append(("Last tool", line(tool["name"])))
    if data["activity"]:
        facts.append(("Activity", line(data["activity"])))
    if data["messages_held"]:
        facts.append(("Held", f"{data['messages_held']} messages (sm log {data['session_id']})"))
    return [f"{name + ':':<11}{text}" for name, text in facts]


def question_text(question: Mapping[str, Any]) -> str:
    """A question with its numbered options, for a prompt."""
    options = "  ".join(f"{n}: {shown(option, 60)}" for n, option in enumerate(question["options"], 1))
    return "\n".join(filter(None, (shown(question["question"], 300), options)))
