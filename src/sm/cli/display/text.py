"""How things are shown to a person: pure functions from the daemon's JSON to text.

What an agent says about itself (messages, notes, titles, output) goes through `line` or `their_line`, so that
nothing of it can drive the reader's terminal or be taken for the daemon's word.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from sm.core.states import ENDED, Status

Shown = Mapping[str, Any]
"""An object of the daemon's answer (design section 13)."""

_COLOURS: dict[str, str] = {
    Status.RUNNING: "32",
    Status.ERROR: "31",
    Status.KILLED: "31",
    Status.WAITING_INPUT: "33",
    Status.ABANDONED: "33",
    Status.COMPLETED: "2",
}
_TODO_MAX = 12
_BOXES = {"completed": "x", "in_progress": ">"}
# DEL and C1, which JSON leaves as they are; a terminal takes U+009B for the start of an escape sequence.
_JSON_CONTROLS = {number: f"\\u{number:04x}" for number in range(0x7F, 0xA0)}


def line(text: object, limit: int = 500) -> str:
    """`text` as one line without control characters, cut at `limit` characters."""
    text = str(text)
    if text.isprintable() and len(text) <= limit:
        return text
    from sm.core.text import folded

    return folded(text, limit)


def plain_line(text: str) -> str:
    """One line of a terminal's text without anything that could move a cursor; tabs stay."""
    if text.isprintable():
        return text
    return "\t".join(_without_controls(part) for part in text.split("\t"))


def _without_controls(text: str) -> str:
    return "".join(
        c
        for c in text
        if c >= " "
        and not "\x7f" <= c <= "\x9f"
        and not "\ud800" <= c <= "\udfff"
        and not (
            "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069"
        )  # they would show it in another order
    )


def unclaimed(text: str) -> str:
    """A line of somebody else, with `> ` in front when it claims to be one that only the daemon writes."""
    if text.isascii() and "[sm]" not in text.lower():
        return text
    from sm.core.text import marked

    return marked(text)


def their_line(text: str) -> str:
    """One line that an agent, or its terminal, has written, where it stands on a line of its own."""
    return unclaimed(plain_line(text))


def json_text(text: str) -> str:
    """A JSON document as it came from the daemon, safe to print: controls only as escapes."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON_CONTROLS)


def seconds_since(timestamp: str, now: datetime) -> float:
    return max(0.0, (now - datetime.fromisoformat(timestamp)).total_seconds())


def span(seconds: float) -> str:
    """`10s`, `5min`, `2h`, `3d`: whole units, rounded down."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}min"
    if seconds < 86400:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def age(timestamp: str | None, now: datetime) -> str:
    return f"{span(seconds_since(timestamp, now))} ago" if timestamp else "never"


def clock(timestamp: str, zone: tzinfo | None) -> str:
    """`15:10` in `zone`; None is this machine's."""
    return datetime.fromisoformat(timestamp).astimezone(zone).strftime("%H:%M")


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def cut(text: str, width: int | None) -> str:
    """`text` in at most `width` columns; None: as long as it is."""
    if width is None or columns(text) <= width:
        return text
    kept = text[: max(0, width - 1)]
    while kept and columns(kept) > width - 1:
        kept = kept[:-1]
    return kept + "…"


def name_of(session: Shown) -> str:
    return line(session["friendly_name"] or session["name"])


def label(session: Shown) -> str:
    """`engineer-task1042 (1a2b3c4d)`."""
    return f"{name_of(session)} ({session['session_id']})"


def status_of(session: Shown, now: datetime) -> str:
    """The status; past its freshness limit with a question mark and its age: `running? (4m)`."""
    status = line(session["status"])
    if not session.get("status_stale"):
        return status
    return f"{status}? ({span(seconds_since(session['status_at'], now)).replace('min', 'm')})"


def saying(session: Shown) -> str:
    """What it said last: its result in quotes, or its note; for an end without a word the reason."""
    said = session["completion_message"]
    if said and said != session["status_reason"]:  # else it is ours, and nobody said it
        return f'"{line(said)}"'
    if session["status"] in ENDED:
        return "" if session["status"] == Status.COMPLETED else line(session["status_reason"] or "")
    if session["status"] == Status.WAITING_INPUT:
        return line(session["status_reason"] or "")
    return line(session["note"] or ("In progress" if session["status"] == Status.RUNNING else ""))


def session_rows(
    rows: Iterable[tuple[str, Shown]],
    now: datetime,
    *,
    saying_too: bool = True,
    width: int | None = None,
    colour: bool = False,
) -> list[str]:
    """`name (id) | status | 5min ago | "message"` for each (indentation, session), columns aligned."""
    shown = [
        (indent + label(session), status_of(session, now), age(session["status_at"], now), session)
        for indent, session in rows
    ]
    first = max((columns(left) for left, *_ in shown), default=0)
    second = max((columns(status) for _, status, *_ in shown), default=0)
    lines = []
    for left, status, since, session in shown:
        text = f"{padded(left, first)} | {padded(status, second)} | {since}"
        said = saying(session) if saying_too else ""
        if said:
            text += f" | {said}"
        text = cut(text, width)
        code = _COLOURS.get(str(session["status"]))
        if colour and code is not None:
            begin = len(padded(left, first)) + 3
            end = begin + len(status)
            text = f"{text[:begin]}\033[{code}m{text[begin:end]}\033[0m{text[end:]}"
        lines.append(text)
    return lines


def nested(sessions: Sequence[Shown], depth: int = 0) -> list[tuple[str, Shown]]:
    """Sessions with their `children` as rows of a tree, each with its indentation."""
    rows: list[tuple[str, Shown]] = []
    for session in sessions:
        rows.append(("  " + "   " * (depth - 1) + "└─ " if depth else "", session))
        rows += nested(session.get("children") or [], depth + 1)
    return rows


def tree(sessions: Sequence[Shown]) -> list[tuple[str, Shown]]:
    """A flat list as rows of a tree: below a session those that name it as their parent, in the order given.

    A session whose parent is not in the list is a root.
    """
    known = {session["session_id"] for session in sessions}
    below: dict[str | None, list[Shown]] = {}
    for session in sessions:
        parent = session["parent_session_id"]
        below.setdefault(parent if parent in known else None, []).append(session)

    def with_children(session: Shown) -> Shown:
        return {
            **session,
            "children": [with_children(child) for child in below.get(session["session_id"], [])],
        }

    return nested([with_children(session) for session in below.get(None, [])])


def event_line(event: Shown, zone: tzinfo | None) -> str:
    """`[15:10] spawned: Child engineer-abc123 (1a2b3c4d) started`."""
    return f"[{clock(event['timestamp'], zone)}] {line(event['type'])}: {line(event['message'], 2000)}"


def checkpoint_line(checkpoint: Shown, zone: tzinfo | None) -> str:
    return f"[{clock(checkpoint['timestamp'], zone)}] {line(checkpoint['message'], 2000)}"


def progress_block(progress: Shown, now: datetime, zone: tzinfo | None) -> list[str]:
    """The block of `sm progress`; what nobody measured has no line."""
    name = line(progress.get("name") or progress["session_id"])
    elapsed = span(progress["elapsed_seconds"])
    lines = [f"{name} ({progress['session_id']}) | {line(progress['status'])} | {elapsed} elapsed"]
    tokens = _tokens(progress)
    if tokens:
        lines.append(tokens)
    if progress.get("tools_used"):
        used = " ".join(f"{line(tool)}({count})" for tool, count in progress["tools_used"].items())
        lines.append(f"Tools: {used}")
    if progress.get("current_activity"):
        lines.append(f"Status: {line(progress['current_activity'])}")
    if progress.get("last_tool"):
        lines.append(_last_tool(progress["last_tool"], now))
    if progress.get("cost_usd") is not None:
        lines.append(f"Cost: ${progress['cost_usd']:,.2f}")
    if progress.get("context_percent") is not None:
        lines.append(f"Context: {progress['context_percent']}% of {progress['context_window']:,} tokens")
    if progress.get("completion_message"):
        lines.append(f'Result: "{line(progress["completion_message"])}"')
    if progress.get("todo"):
        lines += ["", *_todo(progress["todo"])]
    if progress.get("checkpoints"):
        lines += ["", "Checkpoints:"]
        lines += [f"  {checkpoint_line(checkpoint, zone)}" for checkpoint in progress["checkpoints"]]
    output = [their_line(text) for text in progress.get("last_output") or []][-10:]
    if output:
        lines += ["", "Last output:"]
        lines += [f"  {text}" for text in output]
    return lines


def _tokens(progress: Shown) -> str:
    used = progress.get("tokens_used")
    percentage = progress.get("completion_percentage")
    if used is None:
        return "" if percentage is None else f"Done: {percentage}%"
    text = f"Tokens: {used:,}"
    remaining = progress.get("tokens_remaining_estimate")
    if remaining is not None:
        text += f" / ~{used + remaining:,} est"
    if percentage is not None:
        text += f" ({percentage}%)"
    below = (progress.get("subagents") or {}).get("tokens") or {}
    theirs = below.get("input", 0) + below.get("output", 0)
    return f"{text}, {theirs:,} of them by sub-agents" if theirs else text


def _last_tool(tool: Shown, now: datetime) -> str:
    arguments = tool.get("args") or {}
    target = next((str(value) for value in arguments.values()), "") if isinstance(arguments, Mapping) else ""
    arrow = f" → {line(target, 80)}" if target else ""
    return f"Last tool: {line(tool['name'])}{arrow} ({age(tool.get('timestamp'), now)})"


def _todo(entries: Sequence[Shown]) -> list[str]:
    """The agent's own list of tasks; of a long one the part that it works at."""
    done = [entry["status"] == "completed" for entry in entries]
    at = max(0, min([*done, False].index(False) - 2, len(entries) - _TODO_MAX))
    part = entries[at : at + _TODO_MAX]
    lines = [f"  [{_BOXES.get(entry['status'], ' ')}] {line(entry['text'], 200)}" for entry in part]
    if len(part) < len(entries):
        lines.append(f"  ({len(entries) - len(part)} more)")
    return [f"Todo: {sum(done)} of {len(entries)} done", *lines]


def session_block(session: Shown, now: datetime) -> list[str]:
    """Everything about one session, for `sm status ID` and `sm me`."""
    status = f"{status_of(session, now)}, {age(session['status_at'], now)}"
    agent = [line(session["agent_type"]), f"provider {line(session['provider'])}"]
    if session["model"]:
        agent.append(f"model {line(session['model'])}")
    trust = line(session["effective_mode"])
    if session["effective_mode"] != session["trust_level"]:
        trust += f" (asked for {line(session['trust_level'])})"
    facts = [
        ("Status", f"{status} ({line(session['status_source'])}: {line(session['status_reason'] or '-')})"),
        ("Agent", ", ".join(agent)),
        ("Title", session["title"]),
        ("Result", session["completion_message"] and f'"{line(session["completion_message"], 10_000)}"'),
        ("Note", session["note"]),
        ("Process", process_of(session)),
        ("Parent", session["parent_session_id"] or "none"),
        ("Directory", session["working_dir"]),
        (
            "Worktree",
            session["worktree"] and "{path}, branch {branch}".format_map(session["worktree"]),
        ),
        ("Workspace", session["workspace"]),
        ("Trust", f"{trust}, mode {line(session['mode'])}, created by {line(session['created_by'])}"),
        ("Started", session["started_at"] and age(session["started_at"], now)),
        ("Active", session["last_activity_at"] and age(session["last_activity_at"], now)),
        ("Terminal", f"{line(session['tmux_session'])} (sm attach {session['session_id']})"),
    ]
    lines = [label(session)]
    lines += [f"{name + ':':<11}{line(value, 10_000)}" for name, value in facts if value]
    output = [their_line(text) for text in session.get("last_output") or []]
    if output:
        lines += ["Last output:", *(f"  {text}" for text in output)]
    return lines


def process_of(session: Shown) -> str | None:
    """How its process ended, or that it runs."""
    if session["exit_signal"] is not None:
        return f"ended by signal {session['exit_signal']}"
    if session["exit_code"] is not None:
        return f"ended with exit code {session['exit_code']}"
    return f"pid {session['pid']}" if session["pid"] else None


def overview(status: Shown) -> list[str]:
    """The answer of `sm status` without an ID."""
    daemon = status["daemon"]
    counts = [f"{count} {line(name)}" for name, count in status["sessions"].items() if count]
    told = [f"           {unclaimed(line(each))}" for each in status["inbox_lines"] if each.strip()]
    lines = [
        f"Inbox:     {status['inbox']}{' (sm inbox --take)' if status['inbox'] else ''}",
        *told,
        f"Daemon:    running, pid {daemon['pid']}, version {line(daemon['version'])}, up {span(daemon['uptime_s'])}",
        f"Sessions:  {', '.join(counts) or 'none'}",
        f"Orphans:   {status['orphans']}",
        f"Requests:  {status['requests_open']} open{' (sm requests)' if status['requests_open'] else ''}",
        f"Dead letters: {status['dead_letters']}",
    ]
    return lines + [f"Trouble:   {line(trouble)}" for trouble in status["trouble"]]


def log_line(record: Shown, zone: tzinfo | None) -> str:
    """One record of the daemon's log: `2026-01-27 15:10:00 INFO sm.sessions.manager: killed sm_session=1a2b3c4d`."""
    try:
        when = datetime.fromisoformat(str(record["time"])).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    except (KeyError, ValueError):
        when = "-"
    context = "".join(
        f" {name}={line(value)}"
        for name, value in record.items()
        if name.startswith("sm_") and value is not None
    )
    head = f"{when} {line(record.get('level', '-'))} {line(record.get('logger', '-'))}"
    return f"{head}: {line(record.get('message', ''), 4000)}{context}"
