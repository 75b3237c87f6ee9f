"""Formats the state of the whole system, and records of the daemon's log. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from sm.core.lines import JsonObject, escape_mark, line, plural
from sm.core.timestamps import span

_INDENT = " " * len("Dead letters: ")
_MIB = 1024 * 1024
_SHOWN_MAX = 20


def park_text(account: JsonObject, now: datetime, zone: tzinfo | None) -> str:
    """`until 06:00: session limit; paused by the operator`, or empty if the account is free."""
    return "; ".join(_park(park, now, zone) for park in account["parks"])


def parked_line(account: JsonObject, now: datetime, zone: tzinfo | None) -> str:
    """`claude-1a2b3c4d until 06:00: session limit, 3 sessions wait`."""
    waiting = account["waiting"]
    waits = f"{plural(waiting, 'session')} wait{'s' if waiting == 1 else ''}"
    return f"{line(account['name'])} {park_text(account, now, zone)}, {waits}"


def _park(park: JsonObject, now: datetime, zone: tzinfo | None) -> str:
    words = line(park["reason"]) + (f" ({line(park['model'])})" if park["model"] else "")
    if park["until"] is None:
        return words
    until = datetime.fromisoformat(park["until"]).astimezone(zone)
    form = "%H:%M" if until - now <= timedelta(days=1) else "%b %-d %H:%M"
    return f"until {until.strftime(form)}: {words}"


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


def orphan_lines(orphans: Sequence[JsonObject]) -> list[str]:
    """`pid 4711 of engineer-login, 5min, 120 MiB: node server.js`, one line for each, at most 20."""
    lines = [
        f"pid {orphan['pid']} of {line(orphan['label'])}, {span(orphan['age_s'])}, "
        f"{max(1, round(orphan['memory_bytes'] / _MIB))} MiB: {line(orphan['command'], 80)}"
        for orphan in orphans[:_SHOWN_MAX]
    ]
    more = len(orphans) - _SHOWN_MAX
    return [*lines, f"and {more} more"] if more > 0 else lines


def orphan_words(sessions: int, orphans: Sequence[JsonObject]) -> str:
    """`0`, `2 processes (sm kill --orphans)`, or `1 session, 2 processes (...)`. `sessions`: those without a parent."""
    words = [plural(sessions, "session")] if sessions else []
    words += [f"{process_count(len(orphans))} (sm kill --orphans)"] if orphans else []
    return ", ".join(words) or "0"


def process_count(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"
