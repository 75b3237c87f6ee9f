"""Formats the digest as one screen of text: worst first, and the rest folded into a number. Pure."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from sm.core.columns import columns, cut
from sm.core.figures import dollars
from sm.core.lines import JsonObject, age, clock, line, plural

SECTIONS = (
    ("requests", "Open requests", "sm requests"),
    ("warnings", "Warnings", "sm events --type warning"),
    ("ended", "Ended", "sm ls --all"),
    ("spending", "Spent", "sm usage --by tree"),
    ("changes", "Changed on disk", "sm diff SESSION --stat"),
    ("live", "Still live", "sm ls"),
)
"""The key of each section, its title, and the command that shows all of it."""
_TEXT_MAX = 200


def digest_lines(
    digest: JsonObject, now: datetime, height: int, width: int, zone: tzinfo | None = None
) -> list[str]:
    """The digest in at most `height` lines of `width` columns. `height` is at least 20."""
    head = f"Since {clock(digest['since'], now, zone)}: {_counts(digest)}"
    digest = {
        **digest,
        "changes": [*_failures(digest), *digest.get("changes", ())],
        "warnings": _folded(digest["warnings"]),
    }
    sections = [(key, title, command) for key, title, command in SECTIONS if digest.get(key)]
    room = _shares([len(digest[key]) for key, _, _ in sections], height - 1 - 2 * len(sections))
    lines = [head]
    for (key, title, command), shown in zip(sections, room, strict=True):
        entries = digest[key]
        hidden = len(entries) - shown
        rest = f" (+{hidden} more: {command})" if hidden else ""
        lines += ["", f"{title}{rest}"]
        lines += [f"  {_entry(key, entry, now, width - 2)}" for entry in entries[:shown]]
    return [cut(text, width) for text in lines]


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """Split `room` lines fairly: a short section leaves its rest to the long ones, the first ones first."""
    shares = [0] * len(sizes)
    while room > 0 and any(share < size for share, size in zip(shares, sizes, strict=True)):
        for index, size in enumerate(sizes):
            if shares[index] < size and room > 0:
                shares[index] += 1
                room -= 1
    return shares


def _failures(digest: JsonObject) -> list[JsonObject]:
    """An entry for each reason for which worktrees were not compared."""
    labels: dict[str, list[str]] = {}
    for failed in digest.get("not_compared", ()):
        labels.setdefault(failed["reason"], []).append(failed["label"])
    return [
        {"label": names[0] if len(names) == 1 else plural(len(names), "worktree"), "reason": reason}
        for reason, names in labels.items()
    ]


def times_text(count: int) -> str:
    """The end of the text of a warning that happened more than once."""
    return f" ({count} times)"


def _folded(warnings: Sequence[JsonObject]) -> list[JsonObject]:
    """One entry for the warnings of several sessions with the same words, at the place of the newest."""
    groups: dict[str, list[JsonObject]] = {}
    for warning in warnings:
        groups.setdefault(_words(warning), []).append(warning)
    folded = []
    for words, group in groups.items():
        if len({warning["session_id"] for warning in group}) == 1:
            folded += group
            continue
        times = sum(warning.get("times", 1) for warning in group)
        often = times_text(times) if times > len(group) else ""
        folded.append({**group[0], "text": f"{plural(len(group), 'session')}: {words.lstrip(' :-')}{often}"})
    return folded


def _words(warning: JsonObject) -> str:
    """The text of a warning without the session that it is about, and without its repetitions."""
    text: str = warning["text"]
    for name in (warning["label"], warning["session_id"]):
        for subject in (f"Session {name}", f"Child {name}"):
            text = text.removeprefix(subject)
    return text.removesuffix(times_text(warning.get("times", 1)))  # an older daemon tells no number


def _counts(digest: JsonObject) -> str:
    statuses: dict[str, int] = {}
    for entry in digest["ended"]:
        statuses[entry["status"]] = statuses.get(entry["status"], 0) + 1
    ended = [f"{count} {status}" for status, count in statuses.items()]
    removed = [f"{plural(digest['removed'], 'ended session')} removed"] if digest["removed"] else []
    waiting = [plural(len(digest["requests"]), "open request")] if digest["requests"] else []
    live = f"{len(digest['live'])} live"
    trees = [tree for tree in digest["spending"] if not tree.get("is_part")]
    costs = [_known_cost(tree) for tree in trees]
    spent = [f"{dollars(sum(cost for cost in costs if cost))} spent"] if any(costs) else []
    is_partial = any(tree["cost_usd"] is None for tree in trees)
    unpriced = ["some without a price"] if spent and is_partial else []
    return ", ".join([*(ended or ["nothing ended"]), *removed, live, *waiting, *spent, *unpriced])


def _known_cost(tree: JsonObject) -> float | None:
    known: float | None = tree.get("known_cost_usd")  # an older daemon has none
    return tree["cost_usd"] if known is None else known


def _entry(key: str, entry: JsonObject, now: datetime, width: int) -> str:
    name = line(entry["label"])
    match key:
        case "requests":
            whole = f"{line(entry['text'], _TEXT_MAX * 2)} ({age(entry['at'], now)})"
            if columns(whole) <= width:
                return whole
            command = f"; see: {line(entry['command'])}"  # in place of the commands at the end of the text
            return cut(line(entry["text"]), max(1, width - columns(command))) + command
        case "spending":
            known = _known_cost(entry)
            is_partial = bool(entry.get("tokens_partial"))  # an older daemon says nothing of it
            unknown = "cost unknown" if is_partial else "no price"
            cost = unknown if known is None else dollars(known, partial=entry["cost_usd"] is None)
            budget = f", budget {line(entry['budget'])}" if entry["budget"] else ""
            return f"{name}: {cost}, {entry['tokens_used']:,}{'+' if is_partial else ''} tokens{budget}"
        case "changes" if "reason" in entry:
            return f"{name}: cannot be compared: {line(entry['reason'], _TEXT_MAX)}"
        case "changes":
            commits = f"{plural(entry['commits'], 'commit')}, " if entry["commits"] is not None else ""
            files = plural(entry["files"], "file")
            return f"{name}: {commits}{files} (+{entry['added']} -{entry['deleted']})"
        case "warnings":
            return line(entry["text"], _TEXT_MAX)
        case _:
            text = line(entry["text"], _TEXT_MAX)
            return f"{name} {line(entry['status'])} {age(entry['at'], now)}{': ' if text else ''}{text}"
