"""Formats the state of the whole system, and records of the daemon's log. Pure."""

from datetime import datetime, tzinfo

from sm.cli.display.orphans import orphan_lines, orphan_words
from sm.core.lines import JsonObject, escape_mark, line, plural
from sm.core.timestamps import span

_INDENT = " " * len("Dead letters: ")


def overview(status: JsonObject, now: datetime) -> list[str]:
    """Format the output of `sm status` without SESSION."""
    daemon = status["daemon"]
    counts = [f"{count} {line(name)}" for name, count in status["sessions"].items() if count]
    # An older daemon has none.
    unseen = [f"{count} {line(name)}" for name, count in (status.get("not_seen") or {}).items() if count]
    inbox = [f"{_INDENT}{escape_mark(line(text))}" for text in status["inbox_lines"] if text.strip()]
    orphans = status.get("orphan_processes") or []  # an older daemon has none
    lines = [
        f"Inbox:        {plural(status['inbox'], 'message') + ' (sm inbox --take)' if status['inbox'] else 0}",
        *inbox,
        f"Daemon:       running, pid {daemon['pid']}, version {line(daemon['version'])}, up {span(daemon['uptime_s'])}",
        f"Sessions:     {', '.join(counts) or 'none'}",
        *([f"Not seen:     {', '.join(unseen)} (sm ls)"] if unseen else []),
        f"Orphans:      {orphan_words(status['orphans'], orphans)}",
        *(f"{_INDENT}{text}" for text in orphan_lines(orphans)),
        f"Requests:     {status['requests_open']} open{' (sm requests)' if status['requests_open'] else ''}",
        f"Dead letters: {status['dead_letters']}",
    ]
    lines += [
        f"Program:      {line(program)}" for program in status.get("programs") or ()
    ]  # an older daemon has none
    if count := status.get("warnings"):  # an older daemon has none
        lines.append(f"Warnings:     {count} open (sm events --type warning)")
    if parked := status.get("parked"):
        from sm.cli.display.accounts import parked_line

        lines += [f"Parked:       {parked_line(account, now, None)}" for account in parked]
    return lines + [f"Problem:      {line(trouble)}" for trouble in status["trouble"]]


def log_line(record: JsonObject, zone: tzinfo | None) -> str:
    """Format a log record as `2026-01-27 15:10:00 INFO sm.sessions.manager: killed sm_session=1a2b3c4d`."""
    try:
        when = datetime.fromisoformat(str(record["time"])).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    except (KeyError, ValueError):
        when = "-"
    context = "".join(
        f" {line(name, 80)}={line(value)}"
        for name, value in record.items()
        if name.startswith("sm_") and value is not None
    )
    head = f"{when} {line(record.get('level', '-'))} {line(record.get('logger', '-'))}"
    return f"{head}: {line(record.get('message', ''), 4000)}{context}"
