"""Chooses all sessions of a kind, for `sm kill --all`, `sm rm --ended`, `sm prune` and `sm attach`, and asks before."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import click

from sm.client.http import Client
from sm.client.pages import flat, whole_list
from sm.core.durations import seconds_in
from sm.core.forest import Forest
from sm.core.lines import JsonObject, plural, seconds_since
from sm.core.session_lines import has_process, label
from sm.core.statuses import ENDED
from sm.errors import IllegalState, UsageError

_SHOWN_MAX = 5

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def check(sessions: Sequence[str], option: str, *, every: bool, workspace: str | None = None) -> None:
    """Raise UsageError unless either sessions or `option` are given, and --workspace only with `option`."""
    if bool(sessions) is every:
        raise UsageError(f"give either SESSION or {option}", "list sessions: sm ls -a")
    if workspace is not None and not every:
        raise UsageError(f"--workspace needs {option}")


def running_trees(client: Client, workspace: str | None, session_id: str | None) -> list[JsonObject]:
    """The topmost sessions that are live or whose process may run; for an agent only its descendants."""
    listed = _listed(client, workspace, session_id, archived=False)
    known = {s["session_id"]: s for s in listed}
    running = (s for s in listed if has_process(s))
    trees = Forest(running, lambda s: s["session_id"], lambda s: s["parent_session_id"], known)
    return [placed.row for placed in trees.lines() if not placed.depth]


def ended(
    client: Client,
    workspace: str | None,
    session_id: str | None,
    now: datetime,
    *,
    archived: bool = False,
    older_than_s: float = 0,
) -> list[JsonObject]:
    """The sessions that ended at least `older_than_s` ago, children before their parents."""
    listed = _listed(client, workspace, session_id, archived=archived)
    found = [s for s in listed if s["status"] in ENDED and _ended_s(s, now) >= older_than_s]
    return found[::-1]  # a child is younger than its parent


def confirm(verb: str, sessions: Iterable[JsonObject], *, yes: bool) -> None:
    """Ask a person at a terminal, as `ask`."""
    names = [label(session) for session in sessions]
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    shown = f"{', '.join(names[:_SHOWN_MAX])}{more}"
    ask(f"{verb} {plural(len(names), 'session')}: {shown}?", yes=yes)


def ask(question: str, *, yes: bool) -> None:
    """Ask a person at a terminal; without one, do not ask. Raises IllegalState if the answer is not yes."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not agrees(question):
        raise IllegalState("cancelled")


def agrees(question: str) -> bool:
    """Ask a person at a terminal. Every answer but yes is a no, also the end of the input (Ctrl-D) and Ctrl-C."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if not answer.endswith("\n"):
        click.echo(err=True)  # otherwise the next line would continue the question
    return answer.strip().lower() in ("y", "yes")


def seconds_of(age: str, noun: str = "age") -> float:
    """Parse `90s`, `1h30m`, `2 hours`, `1d` or `2w`. `noun`: its name in the error. Raises UsageError."""
    seconds = seconds_in(age)
    if seconds is None:
        raise UsageError(f"invalid {noun}: {age!r}", "use a number with s, m, h, d or w, such as 1d")
    return seconds


def choose(sessions: Sequence[JsonObject], rows: Sequence[str], purpose: str) -> str:
    """Let a person choose one of `sessions`, shown as `rows`; return its ID. Raises UsageError without a terminal."""
    if len(sessions) == 1:
        return str(sessions[0]["session_id"])
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"give a SESSION: {', '.join(map(label, sessions))}")
    width = len(str(len(rows)))
    for number, row in enumerate(rows, 1):
        click.echo(f"{number:>{width}}  {row}", err=True)
    click.echo(f"{purpose} (1-{len(rows)}): ", nl=False, err=True)
    answer = sys.stdin.readline().strip()
    if not (answer.isdecimal() and 1 <= int(answer) <= len(rows)):
        raise IllegalState("cancelled")
    return str(sessions[int(answer) - 1]["session_id"])


def _listed(
    client: Client, workspace: str | None, session_id: str | None, *, archived: bool
) -> list[JsonObject]:
    query: Mapping[str, object] = {"workspace": workspace, "archived": archived}
    if session_id is None:
        return whole_list(client, "/v1/sessions", query)
    nested = whole_list(client, "/v1/sessions/-/children", {**query, "recursive": True})
    return sorted(flat(nested), key=lambda session: str(session["created_at"]))


def _ended_s(session: JsonObject, now: datetime) -> float:
    return seconds_since(session["completed_at"] or session["status_at"], now)
