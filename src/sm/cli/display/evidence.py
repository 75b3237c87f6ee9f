"""Formats the actions of an agent, and the evidence for its status. Pure."""

from datetime import datetime, tzinfo

from sm.cli.display.text_table import Table, table_lines
from sm.core.columns import cut
from sm.core.lines import JsonObject, age, clock, line, seconds_since
from sm.core.session_lines import label, status_of
from sm.core.timestamps import span


def action_line(action: JsonObject, now: datetime, columns: int | None, zone: tzinfo | None = None) -> str:
    """Format an action as `[15:10:02] Bash: npm test`, cut to `columns`."""
    text, kind = line(action["text"], 2000), action["kind"]
    known = {"tool": text, "prompt": f"> {text}", "text": f'"{text}"', "event": f"* {text}"}
    at = clock(action["timestamp"], now, zone, seconds=True)
    return cut(f"[{at}] {known.get(kind, f'{line(kind)}: {text}')}", columns)


def why_block(why: JsonObject, at: datetime) -> list[str]:
    """Format a session's status, its reason, and the evidence of each source."""
    source = f"{line(why['status_source'])}, {age(why['status_at'], at)}"
    lines = [
        f"{label(why)} | {status_of(why, at)}",
        f"Because:  {line(why['status_reason'] or 'no reason was given')} ({source})",
    ]
    if why["status_stale"]:
        lines.append("Stale:    no source has confirmed this status recently; it may have changed")
    if why["evidence"]:
        rows = [
            (line(item["source"]), f"reports {line(item['says'])}", _when(item, at), _belief(item))
            for item in why["evidence"]
        ]
        lines += ["Evidence:", *(f"  {row}" for row in table_lines(Table(rows, aligned=3, separator="  ")))]
    if why["facts"]:
        lines += ["Facts:", *(f"  {line(fact)}" for fact in why["facts"])]
    return lines


def _when(evidence: JsonObject, at: datetime) -> str:
    since, seen = span(seconds_since(evidence["since"], at)), span(seconds_since(evidence["seen"], at))
    return f"{since} ago" if since == seen else f"for {since}, seen {seen} ago"


def _belief(evidence: JsonObject) -> str:
    reason = line(evidence["reason"] or "")
    if evidence["believed"]:
        return f"believed: {reason}" if reason else "believed"
    why_not = f"not believed: {line(evidence['why_not'])}" if evidence["why_not"] else "not believed"
    return f"{why_not} ({reason})" if reason else why_not
