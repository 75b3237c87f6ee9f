"""Formats accounts. Pure."""

from datetime import datetime, timedelta, tzinfo

from sm.core.lines import JsonObject, line


def park_text(account: JsonObject, now: datetime, zone: tzinfo | None) -> str:
    """`until 06:00: session limit; paused by the operator`, or empty if the account is free."""
    return "; ".join(_park(park, now, zone) for park in account["parks"])


def parked_line(account: JsonObject, now: datetime, zone: tzinfo | None) -> str:
    """`claude-1a2b3c4d until 06:00: session limit, 3 sessions wait`."""
    waiting = account["waiting"]
    waits = f"{waiting} session{'' if waiting == 1 else 's'} wait{'s' if waiting == 1 else ''}"
    return f"{line(account['name'])} {park_text(account, now, zone)}, {waits}"


def _park(park: JsonObject, now: datetime, zone: tzinfo | None) -> str:
    words = line(park["reason"]) + (f" ({line(park['model'])})" if park["model"] else "")
    if park["until"] is None:
        return words
    until = datetime.fromisoformat(park["until"]).astimezone(zone)
    form = "%H:%M" if until - now <= timedelta(days=1) else "%b %-d %H:%M"
    return f"until {until.strftime(form)}: {words}"
