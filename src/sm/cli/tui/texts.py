"""The texts of `sm top` around its lists: head, chips, foot, help and details. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.style import Style
from rich.text import Text

from sm.board import ACTIONS, KEYS, Board, BoardNeed, BoardRow, Chip, NeedKind, Target
from sm.board.words import context_bar, count_of_tokens, dollars, shown
from sm.cli.display.requests import request_details
from sm.cli.display.sessions import session_block
from sm.cli.display.text import agent_line, clock, line
from sm.cli.tui.cells import utc
from sm.core.quotation import wrapped
from sm.core.statuses import Status
from sm.core.timestamps import iso, span

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
    live = sum(row.is_live for row in board.rows.values())
    parts = [f"sm top  {live} live, {len(board.rows) - live} ended", f"order: {board.sort}"]
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


def needs_title(found: Sequence[BoardNeed], quiet_s: float | None, now_s: float) -> str:
    if found:
        return f"Needs you: {len(found)}"
    if quiet_s is None:
        return "Needs you: loading"
    since = clock(iso(quiet_s), utc(now_s))
    return f"Nothing needs you since {since} ({span(max(0.0, now_s - quiet_s))})"


def prediction(row: BoardRow | None) -> str:
    """The state that a message to the session will have."""
    if row is None:
        return ""
    if row.requests or row.status == Status.WAITING_INPUT:
        return f"answers its only open question, else held: {row.task()}"
    if row.status == Status.IDLE:
        return "delivered now"
    return "delivered while it works" if row.status == Status.RUNNING else "delivered when it is ready"


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
