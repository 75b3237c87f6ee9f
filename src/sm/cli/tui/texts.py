"""The texts of `sm top` around its lists: head, chips, foot, help and details. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.style import Style
from rich.text import Text

from sm.board import ACTIONS, KEYS, Board, Chip, Target
from sm.board.details import count_line
from sm.board.words import shown
from sm.core.lines import agent_line, line
from sm.core.timestamps import span

VIEW_KEYS = (
    ("j k ↓ ↑", "Move the selection; g G: to the first or last line; PageUp PageDown"),
    ("Tab", "Switch between the region of what needs you and the list"),
    ("Enter", "Show the selected request or session in full"),
    ("← → Space", "Fold and unfold the sessions below the selected one"),
    ("0-9", "Choose a workspace; while an open question with options is selected: answer it"),
    ("/", f"Filter: words, and {KEYS}"),
    ("S", "Next order: tree, needs me, age, cost, name"),
    (":", "Choose an action from a list"),
    ("c", "Copy the sm command of the selection"),
    ("u", "Undo, for 5 seconds"),
    ("Esc", "Drop the filter"),
    ("?", "Show this help"),
    ("q", "Quit. The agents keep running"),
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


def head(board: Board, lost_s: float | None, trouble: str) -> str:
    parts = [f"sm top  {count_line(board.rows.values())}", f"order: {board.sort}"]
    if board.filter_text:
        parts.append(f"filter: {board.filter_text}")
        parts += board.filter.problems
    if board.waiting:
        parts.append(f"{board.waiting} new")
    if lost_s is not None:
        since = "" if board.revision is None else f", the list is {span(lost_s)} old"
        parts.insert(0, f"no daemon{since} ({line(trouble, 100)})")
    return " | ".join(parts)


def chip_line(found: Sequence[Chip], chosen: str | None) -> Text:
    text = Text()
    for chip in found:
        count = f" {chip.needs}!" if chip.needs else ""
        name = f"{chip.key} {chip.label}" if chip.key else chip.label
        style = Style(reverse=chip.slug == chosen, bold=bool(chip.needs))
        text.append(f" {name}{count} ", style)
        text.append(" ")
    return text


def output_lines(answer: Mapping[str, Any]) -> list[str]:
    return [agent_line(text) for text in answer["lines"]] or ["the terminal is empty"]


def why_lines(answer: Mapping[str, Any]) -> list[str]:
    """The status with each source, also those that were not believed."""
    lines = [f"{answer['label']}: {answer['status']} ({line(answer['status_source'])})"]
    lines += [f"  {line(answer['status_reason'] or '-')}", ""]
    for entry in answer["evidence"]:
        refused = "" if entry["believed"] else f" - not believed: {line(entry['why_not'] or '-')}"
        reason = f" ({line(entry['reason'])})" if entry["reason"] else ""
        lines.append(f"{line(entry['source']):<12}{line(entry['says'])}{reason}{refused}")
    return [*lines, *(line(fact) for fact in answer["facts"])]


def question_text(question: Mapping[str, Any]) -> str:
    """A question with its numbered options, for a prompt."""
    options = "  ".join(f"{n}: {shown(option, 60)}" for n, option in enumerate(question["options"], 1))
    return "\n".join(filter(None, (shown(question["question"], 300), options)))
