"""The texts of live views about one session or one entry, and the titles of their regions. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sm.board.board import Board
from sm.board.board_action import Target
from sm.board.needs import BoardNeed, NeedKind
from sm.board.row import DONE, FAILED, BoardRow
from sm.board.words import context_bar
from sm.core.figures import dollars, token_count
from sm.core.lines import age, clock, fact_lines, plural
from sm.core.quotation import wrapped_at_blanks
from sm.core.request_lines import request_details
from sm.core.session_lines import session_block
from sm.core.timestamps import iso, span

_UNSEEN = {FAILED: "failed", DONE: "done"}
_OF_ROWS = frozenset({NeedKind.STALE, NeedKind.FAILURE, NeedKind.DONE})
"""Entries whose text says nothing that the session in full does not say."""


def utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def count_line(rows: Iterable[BoardRow]) -> str:
    """How many sessions there are and what they have cost: `3 live, 2 failed, 1 ended, $1.20`.

    `failed` and `done`: ended, and not seen.
    """
    counts, cost, is_counted = dict.fromkeys(("live", "failed", "done", "ended"), 0), 0.0, False
    for row in rows:
        counts["live" if row.is_live else _UNSEEN.get(row.urgency, "ended")] += 1
        cost, is_counted = cost + row.cost, is_counted or row.data["cost_usd"] is not None
    numbers = [f"{count} {name}" for name, count in counts.items() if count or name in ("live", "ended")]
    return ", ".join([*numbers, *([dollars(cost)] if is_counted else [])])


def earlier_words(board: Board) -> str:
    """How many sessions have no row: `312 sessions ended earlier`, or empty without any."""
    if not board.earlier:
        return ""
    sessions = plural(board.earlier, "session")
    if board.filter.is_empty:
        return f"{sessions} ended earlier"
    return f"The filter does not search {sessions} that ended earlier"


def earlier_command(board: Board, *, archived: bool) -> str:
    """The command that lists the sessions of `earlier_words`. `archived`: also archived ones."""
    place = ("--workspace", board.workspace) if board.workspace else ()
    hidden = ("--archived",) if archived else ()
    wanted = ("--limit", "all")
    if not board.filter.is_empty:
        wanted = ("--search", " ".join(board.filter.words) or "WORDS")
    return shlex.join(("sm", "ls", "--all", *place, *hidden, *wanted))


def needs_title(found: Sequence[BoardNeed], quiet_s: float | None, now_s: float) -> str:
    urgent = sum(need.is_urgent for need in found)
    done = f"; done, not seen yet: {len(found) - urgent}" if len(found) > urgent else ""
    if urgent:
        return f"Needs you: {urgent}{done}"
    if quiet_s is None:
        return f"Needs you: loading{done}"
    if not quiet_s:
        return f"Nothing needs you{done}"
    since = clock(iso(quiet_s), utc(now_s))
    return f"Nothing needs you since {since} ({span(max(0.0, now_s - quiet_s))}){done}"


def shown_target(target: Target, found: Sequence[BoardNeed]) -> Target:
    """The target with the oldest open request of its session, if the session itself is selected."""
    if target.need is not None or target.row is None or not target.row.requests:
        return target
    need = next((need for need in found if need.request and need.session_id == target.row.id), None)
    return target if need is None else replace(target, need=need)


def target_lines(
    target: Target, now_s: float, width: int, changes: str | None = None, *, keys: str = ""
) -> list[str]:
    """The selected request or session in full, in lines of at most `width` cells.

    `changes`: what the session has changed, in words, for a request that proposes its completion. `keys`: those that
    answer the request.
    """
    lines = list[str]()
    if target.request is not None:
        lines += request_lines(target.request, now_s, width, changes)
        lines += [f"{'Keys:':<10} {keys}", ""] if keys else [""]
    elif target.need is not None and target.need.kind not in _OF_ROWS:
        lines += [f"{target.need.key}: {target.need.text}", ""]
    if target.row is not None:
        lines += [*session_block(target.row.data, utc(now_s)), *_usage(target.row, now_s)]
    return _fitted(lines, width)


def request_lines(
    request: Mapping[str, Any], now_s: float, width: int, changes: str | None = None
) -> list[str]:
    """A request in full, in lines of at most `width` cells. `changes`: as in `target_lines`."""
    return _fitted(request_details(request, utc(now_s), width, changes), width)


def _fitted(lines: Sequence[str], width: int) -> list[str]:
    return [piece for text in lines for piece in wrapped_at_blanks(text, max(10, width))]


def _usage(row: BoardRow, now_s: float) -> list[str]:
    data, tree, tool = row.data, row.data["tree"], row.data["last_tool"]
    ended = data["completed_at"]
    facts = [
        ("Ended", ended and f"{clock(ended, utc(now_s))}, {age(ended, utc(now_s))}"),
        ("Tokens", row.tokens() if data["tokens"] is not None else ""),
        ("Cost", dollars(data["cost_usd"]) if data["cost_usd"] is not None else ""),
        ("Context", context_bar(data["context_percent"]) if data["context_percent"] is not None else ""),
    ]
    if tree["sessions"] > 1:
        below = f"{tree['sessions']} sessions ({tree['live']} live), {dollars(tree['cost_usd'])}"
        facts.append(("Tree", f"{below}, {token_count(tree['tokens'], narrow=True)} tokens"))
    if tool is not None:
        facts.append(("Last tool", tool["name"]))
    facts.append(("Activity", data["activity"]))
    if data["messages_held"]:
        held = plural(data["messages_held"], "message")
        facts.append(("Held", f"{held} (sm log {data['session_id']})"))
    return fact_lines(facts)
