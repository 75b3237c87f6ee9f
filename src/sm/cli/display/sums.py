"""Formats sums of tokens, cost and time, estimates, and the report of `sm usage`. Pure."""

from collections.abc import Callable

from sm.cli.display.text_table import Table
from sm.core.figures import dollars, short_count, token_count
from sm.core.lines import JsonObject, line
from sm.core.timestamps import span

_HEADER = (
    "SESSIONS",
    "ENDINGS",
    "TOKENS",
    "CACHE",
    "COST",
    "MINUTES",
    "REMINDED",
    "RETRIED",
    "COST EACH",
    "TIME EACH",
)


def sums_words(session: JsonObject) -> str:
    """The sums of a session and its descendants, then its own: `12.3k tokens, $1.25, 8min; own 2.0k, $0.10, 3min`.

    Empty without usage and work, and for an older daemon.
    """
    sums = session.get("sums")
    if not sums or not (sums["tree"]["tokens"] or sums["tree"]["minutes"] or _is_partial(sums["tree"])):
        return ""
    tree, own = sums["tree"], sums["own"]
    text = _words(tree, " tokens")
    if tree["removed"]:
        text += f", with {tree['removed']} removed"
    return text if tree["sessions"] + tree["removed"] < 2 else f"{text}; own {_words(own)}"


def _words(sums: JsonObject, unit: str = "") -> str:
    parts = []
    if sums["tokens"] is not None or _is_partial(sums):
        parts.append(f"{token_count(sums['tokens'], partial=_is_partial(sums))}{unit}")
        parts.append(dollars(sums["cost_usd"], partial=sums["cost_partial"]))
    parts.append(f"{sums['minutes']:g}min")
    return ", ".join(parts)


def _is_partial(sums: JsonObject) -> bool:
    """Return whether some tokens are unknown. An older daemon does not know of that."""
    return bool(sums.get("tokens_partial"))


def tree_lines(progress: JsonObject) -> list[str]:
    """The sums of a session and its descendants, for `sm progress --tree`."""
    tree = progress.get("tree")
    if not tree:
        return []
    others = [
        f"{tree['sessions']} sessions" if tree["sessions"] != 1 else "1 session",
        f"{tree['live']} live",
    ]
    if tree["removed"]:
        others.append(f"{tree['removed']} removed")
    lines = [f"Tree: {', '.join(others)}, {tree['minutes']:g} min of work"]
    if tree["tokens"] is not None or _is_partial(tree):
        lines.append(f"  Tokens: {_kinds(tree)}")
        lines.append(f"  Cost: {dollars(tree['cost_usd'], partial=tree['cost_partial'])}")
    own = [f"{progress['minutes']:g} min of work"]
    if progress["tokens_used"] is not None or _is_partial(progress):
        used = "?" if progress["tokens_used"] is None else f"{progress['tokens_used']:,}"
        own = [
            f"{used} tokens",
            _own_cost(progress),
            *own,
        ]
    lines.append(f"  Own share: {', '.join(own)}")
    return lines


def _own_cost(progress: JsonObject) -> str:
    own = progress.get("own") or {}  # an older daemon has none
    cost_usd = own.get("cost_usd", progress["cost_usd"])
    return dollars(cost_usd, partial=own.get("cost_partial", progress["cost_usd"] is None))


def _kinds(sums: JsonObject) -> str:
    kinds = [f"{number:,} {kind.replace('_', ' ')}" for kind, number in (sums["tokens"] or {}).items()]
    return ", ".join([*kinds, *(["some unknown"] if _is_partial(sums) else [])])


def estimate_words(estimate: JsonObject | None) -> str | None:
    """`12min to 30min, $0.40 to $1.10 (12 completed sessions)`: the median and the 90th percentile.

    None without evidence.
    """
    if not estimate:
        return None
    parts = []
    if estimate["seconds"]:
        parts.append(_range(estimate["seconds"], span))
    if estimate["tokens"]:
        parts.append(f"{_range(estimate['tokens'], short_count)} tokens")
    if estimate["cost_usd"]:
        parts.append(_range(estimate["cost_usd"], dollars))
    what = "finished tasks" if estimate["basis"] == "tasks" else "completed sessions"
    return f"{', '.join(parts)} ({estimate['samples']} {what})" if parts else None


def _range(spread: JsonObject, show: Callable[[float], str]) -> str:
    low, high = show(spread["p50"]), show(spread["p90"])
    return low if low == high else f"{low} to {high}"


def report_table(report: JsonObject) -> Table:
    """The groups of a report and their sum, with a header."""
    rows: list[tuple[str, ...]] = [(report["by"].upper(), *_HEADER)]
    rows += [(line(group["label"]), *_cells(group)) for group in report["groups"]]
    rows.append(("total", *_cells(report["total"])))
    return Table(rows, aligned=len(rows[0]) - 1)


def _cells(group: JsonObject) -> tuple[str, ...]:
    tokens, sessions, partial = group["tokens"], f"{group['sessions']}", _is_partial(group)
    if group["removed"]:
        sessions += f" ({group['removed']} removed)"
    endings = [f"{count} {kind}" for kind, count in group["endings"].items() if count]
    cost, seconds = group["cost_usd_each"], group["seconds_each"]
    return (
        sessions,
        ", ".join(endings) or "-",
        token_count(tokens, partial=partial),
        token_count(tokens, ("cache_read", "cache_write"), partial=partial),
        dollars(group["cost_usd"], partial=group["cost_partial"]),
        f"{group['minutes']:g}",
        f"{group['reminders']}",
        f"{group['retries']}",
        _range(cost, dollars) if cost else "-",
        _range(seconds, span) if seconds else "-",
    )
