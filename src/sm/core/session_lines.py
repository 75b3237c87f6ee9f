"""Formats one session: its name, its status, its last words, and all of it in full. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import Any

from sm.core.capability_parts import capability_parts
from sm.core.lines import (
    RESULT_MAX,
    JsonObject,
    age,
    agent_line,
    clock,
    fact_lines,
    line,
    plural,
    seconds_since,
)
from sm.core.pause_states import held_words, spending_words
from sm.core.statuses import ENDED, Status
from sm.core.timestamps import span

_OWN_WORDS = frozenset({"answer", "result"})
"""The kinds of tasks that the agent has said."""
COLOURS: dict[str, str] = {
    Status.RUNNING: "green",
    Status.ERROR: "red",
    Status.KILLED: "red",
    Status.WAITING_INPUT: "yellow",
    Status.ABANDONED: "yellow",
    Status.COMPLETED: "dim",
}


def name_of(session: JsonObject) -> str:
    return line(session["friendly_name"] or session["name"])


def name_and_id(session: JsonObject) -> str:
    """`engineer-task1042 (1a2b3c4d)`, for lists that scripts read, and where a person learns the ID."""
    return f"{name_of(session)} ({session['session_id']})"


def label(source: JsonObject) -> str:
    """Name of a session for people. The daemon adds the ID if another session has the same name.

    `source`: the session, or a message or request of it. An older daemon sends no label.
    """
    names = (source.get(field) for field in ("label", "friendly_name", "name", "session_id"))
    return line(next(filter(None, names), "operator"))


def name_to_type(source: JsonObject) -> str:
    """The word for a session in a command: its label, or the ID that the label contains. `source`: as for `label`."""
    shown, session_id = label(source), line(source["session_id"])
    return session_id if session_id in shown else shown


def status_of(session: JsonObject, now: datetime) -> str:
    """Format a status. A stale status has a question mark and its age: `running? (4m)`."""
    status = line(session["status"])
    if pause := session.get("paused"):  # an older daemon has no pauses
        return f"{pause_state(pause)} ({status})"
    if not session.get("status_stale"):
        return status
    return f"{status}? ({span(seconds_since(session['status_at'], now), 'm')})"


def pause_state(pause: JsonObject) -> str:
    """`pausing` until sm has seen that nothing spends any more, then `paused`."""
    return line(pause.get("state") or "paused")  # an older daemon says nothing of it


def _spending(pause: JsonObject) -> str:
    """`3 background agents still spend: `; empty when nothing is known to."""
    spends = pause.get("spends") or ()
    return f"{line(spending_words(spends))}: " if spends else ""


def last_words(session: JsonObject) -> str:
    """Return the session's quoted result, the reason for its pause or its status, or its note."""
    if pause := session.get("paused"):
        return _spending(pause) + line(pause["reason"])
    result = session["completion_message"]
    if result and result != session["status_reason"]:  # else the daemon wrote the result
        return f'"{line(result)}"'
    if session["status"] in ENDED:
        return "" if session["status"] == Status.COMPLETED else line(session["status_reason"] or "")
    waits = (session.get("restarts") or {}).get("next_at")  # for a restart
    if waits or session["status"] == Status.WAITING_INPUT:
        return line(session["status_reason"] or "")
    return line(session["note"] or ("In progress" if session["status"] == Status.RUNNING else ""))


def failure_words(reason: str, words: str | None) -> str:
    """The reason of a failure, and the last words of the agent: `exit code 1: "KeyError"`."""
    short = reason.removeprefix("the process ended with ")
    return f'{short}: "{words.strip()}"' if words and words.strip() and reason else reason


def ended_children(session: Mapping[str, Any]) -> str:
    """The ended children of a session in numbers, as `2 failed, 3 done`; empty without any."""
    # An older daemon counts none.
    counts = {"failed": session.get("children_failed"), "done": session.get("children_done")}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def task_words(session: Mapping[str, Any], task: str) -> str:
    """The ended children of a session, and its task. Quotes the agent's own words.

    `task`: the field of that name, safe to show.
    """
    words = f'"{task}"' if task and session["task_kind"] in _OWN_WORDS else task
    return "; ".join(filter(None, (ended_children(session), words)))


def loss(count: int) -> list[str]:
    """The command that restarts the sessions that a loss has ended; none if there are none."""
    why = "that ended with the tmux server or the machine"
    return [f"sm restore --all  # restarts {plural(count, 'session')} {why}"] if count else []


def left_out(rest: Mapping[str, int], command: str, seen: str) -> list[str]:
    """`15 more: 5 failed, 10 completed (sm ls -a)`; none if a list is complete.

    `command` lists the others, `seen` marks those that have not been seen for long.
    """
    parts = {name: rest.get(name) or 0 for name in ("failed", "completed", "killed")}
    if not (count := sum(parts.values())):
        return []
    words = ", ".join(f"{number} {name}" for name, number in parts.items() if number)
    older = rest.get("older") or 0
    return [f"{count} more: {words} ({command})" + (f"; {older} older not seen ({seen})" if older else "")]


HEADINGS = {
    "waiting": "Needs you",
    "failed": "Needs you",
    "done": "Done, not seen yet",
    "working": "Working",
    "idle": "Idle",
    "older": "Ended",
    "ended": "Ended",
}
"""The headings of the groups of sessions (`attention`), in display order."""


def has_process(session: Mapping[str, Any]) -> bool:
    """True for a live session, and for an ended one without a known exit: its process may still run."""
    has_exit = session["exit_code"] is not None or session["exit_signal"] is not None
    return session["status"] not in ENDED or (bool(session["pid"]) and not has_exit)


def capability_marks(session: Mapping[str, Any]) -> dict[str, str]:
    """The words of capabilities for their fields of a session that have a value, by the name of the field.

    A capability has them as MARKS in its module `text`.
    """
    marks = _marks(capability_parts("text"))
    return {name: mark(session[name]) for name, mark in marks.items() if session.get(name) is not None}


@cache
def _marks(parts: tuple[ModuleType, ...]) -> Mapping[str, Callable[[Any], str]]:
    return {name: mark for part in parts for name, mark in getattr(part, "MARKS", {}).items()}


def fallback_mark(session: Mapping[str, Any]) -> str:
    """The mark of a session that should be sandboxed and runs directly on this host."""
    fell_back = (session["trust_level"], session["effective_mode"]) == ("sandboxed", "direct")
    return " !direct" if fell_back else ""


def session_block(session: JsonObject, now: datetime, proposal: str | None = None) -> list[str]:
    """Format one session in full, for `sm status SESSION` and `sm me`. `proposal`: its open request, in words."""
    status = f"{status_of(session, now)}, {age(session['status_at'], now)}"
    agent = [line(session["agent_type"]), f"provider {line(session['provider'])}"]
    if session["model"]:
        agent.append(f"model {line(session['model'])}")
    trust = line(session["effective_mode"])
    if session["effective_mode"] != session["trust_level"]:
        trust += f" (requested: {line(session['trust_level'])})"
    facts = [
        ("Status", f"{status} ({line(session['status_source'])}: {line(session['status_reason'] or '-')})"),
        ("Paused", paused_words(session, now)),
        ("Warnings", warning_words(session, now)),
        ("Agent", ", ".join(agent)),
        ("Title", session["title"]),
        ("Result", session["completion_message"] and f'"{line(session["completion_message"], RESULT_MAX)}"'),
        ("Request", proposal),
        ("Note", session["note"]),
        ("Process", process_of(session)),
        ("Restarts", restart_words(session)),
        ("Parent", session["parent_label"] or "none"),
        ("Children", children_words(session)),
        ("Directory", session["working_dir"]),
        place_fact(session),
        ("Workspace", session["workspace"]),
        ("Trust", f"{trust}, created by {line(session['created_by'])}"),
        ("Lifecycle", f"{line(session['mode'])} (from {line(session['mode_source'])})"),
        ("Started", session["started_at"] and age(session["started_at"], now)),
        ("Active", session["last_activity_at"] and age(session["last_activity_at"], now)),
        ("Terminal", f"{line(session['tmux_session'])} (sm attach {name_to_type(session)})"),
    ]
    lines = [name_and_id(session), *fact_lines(facts, RESULT_MAX + 2)]
    output = [agent_line(text) for text in session.get("last_output") or []]
    if output:
        lines += ["Last output:", *(f"  {text}" for text in output)]
    return lines


def place_fact(session: JsonObject) -> tuple[str, str | None]:
    """The directory that sm has made for the session: a git worktree, or a copy of a directory."""
    tree = session["worktree"]
    if tree and (original := session.get("copy_of")):  # an older daemon has none
        return "Copy", f"{tree['path']} of {original}"
    return "Worktree", tree and f"{tree['path']}, branch {tree['branch']}"


def children_words(session: JsonObject) -> str | None:
    """`2 running, 1 error (sm children lead)`; None without children."""
    counts = session.get("children_by_status") or {}  # not in every answer
    if not counts:
        return None
    words = ", ".join(f"{count} {line(status)}" for status, count in counts.items())
    return f"{words} (sm children {name_to_type(session)})"


def warning_words(session: JsonObject, now: datetime) -> str:
    """`loop, 3min ago: Bash: make failed 3 times; context, 1min ago: ...`; empty without open warnings."""
    warnings = [w for w in session.get("warnings") or () if isinstance(w, dict)]  # an older daemon has none
    return "; ".join(f"{line(w['kind'])}, {age(w['at'], now)}: {line(w['evidence'])}" for w in warnings)


def paused_words(session: JsonObject, now: datetime) -> str | None:
    """`3min ago by operator, until 06:00: too expensive`; None if the session is not paused."""
    pause = session.get("paused")
    if not pause:
        return None
    until = f", until {clock(pause['until'], now)}" if pause["until"] else ""
    state = f"; {line(spending_words(pause.get('spends', ())))}" if pause_state(pause) == "pausing" else ""
    how = f"; {words}" if (words := held_words(pause.get("held"))) else ""
    return f"{age(pause['at'], now)} by {line(pause['by'])}{until}: {line(pause['reason'])}{state}{how}"


def restart_words(session: JsonObject) -> str | None:
    """`2 of 3 (last: exit code 3)`; None without a restart."""
    restarts = session.get("restarts")  # an older daemon has none
    if not restarts or not restarts["total"]:
        return None
    code, signal = restarts["exit_code"], restarts["exit_signal"]
    last = (
        f"signal {signal}" if signal is not None else f"exit code {code}" if code is not None else "unknown"
    )
    return f"{restarts['count']} of {restarts['max']} in 15 minutes, {restarts['total']} in all (last end: {last})"


def process_of(session: JsonObject) -> str | None:
    """Describe the process by its pid, exit code or signal; None before it starts."""
    if session["exit_signal"] is not None:
        return f"ended by signal {session['exit_signal']}"
    if session["exit_code"] is not None:
        return f"ended with exit code {session['exit_code']}"
    return f"pid {session['pid']}" if session["pid"] else None
