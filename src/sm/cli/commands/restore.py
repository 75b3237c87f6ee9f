"""Restart ended sessions and resume their conversations.

Each session gets a new process and keeps its ID, names, terminal, directory and conversation. A program that is not a
coding agent starts from the beginning. Processes that the old agent left running are ended first. An archived session
is unarchived.

The command waits until each coding agent has accepted its conversation. If an agent ends at its start, the command
fails. If the agent takes longer than 20 seconds, the command says that the result is not known yet.

If claude has deleted its transcript, or it is shorter than its copy in the archive of the session, claude gets that
copy back. If a part of a conversation is lost, the command says which. If nothing of it can be read, the session is
not restored.

An agent that never began its first turn, such as one that ended in a dialog of its start, gets its prompt again.

With --continue, an agent whose turn was cut off gets a message that tells it to check its work and go on. An agent that
was idle stays idle.

A session that fell back (should be sandboxed, and ran on this host for want of a sandbox) is restored there with the
same warning as long as there is none. If there is a sandbox now, the command asks at a terminal whether the session
goes on without it, and fails elsewhere; --trust direct says yes.

Without --tree, the command names the descendants that ended by the same loss and stay ended.

If the command fails for one session, it continues with the next one. The exit code is that of the first failure.

The JSON is the session, with its restored descendants in "restored_too". With several sessions or --all, it is an
array of the restored sessions.

\b
Examples:
  sm restore engineer-login
  sm restore --all --continue
"""

import sys
from collections.abc import Collection, Sequence
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import Failures
from sm.cli.display.output import print_json
from sm.cli.options import ended_sessions
from sm.cli.selection import agrees
from sm.client.http import START_TIMEOUT_S, session_path
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import label, name_to_type
from sm.core.statuses import Status
from sm.errors import FallbackOver, SmError, UsageError, from_wire
from sm.wire import encode

_LEFT_SHOWN = 5


@click.command(help=__doc__)
@click.argument("sessions", metavar="[SESSION...]", nargs=-1, shell_complete=ended_sessions)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Restore every session that ended with the machine, the tmux server, the engine or its container.",
)
@click.option("--tree", is_flag=True, help="Restore all ended descendants too, parents before children.")
@click.option("--continue", "go_on", is_flag=True, help="Tell agents whose turn was cut off to go on.")
@click.option(
    "--trust",
    metavar="LEVEL",
    help="direct: a session that ran on this host because there was no sandbox goes on here, though there is one now.",
)
@json_option
def command(
    sessions: tuple[str, ...], every: bool, tree: bool, go_on: bool, trust: str | None, call: Call
) -> int:
    if bool(sessions) is every:
        raise UsageError("give either SESSION or --all", "sm restore --help")
    if every and tree:
        raise UsageError("--all and --tree cannot be used together: --all includes lost descendants")
    if every and trust is not None:
        raise UsageError("--all and --trust cannot be used together: name the sessions")
    client = call.client
    answers: list[Any] = []
    left: list[tuple[JsonObject, JsonObject]] = []
    failures = Failures()
    for session in [None] if every else sessions:
        try:
            path = "/v1/restore" if session is None else session_path(session, "/restore")
            body = {"go_on": go_on} if every else {"tree": tree, "go_on": go_on, "trust": trust}
            try:
                answer = client.post(path, body, timeout_s=START_TIMEOUT_S)
            except FallbackOver as error:
                if not _agrees(error, call):
                    raise
                answer = client.post(path, {**body, "trust": "direct"}, timeout_s=START_TIMEOUT_S)
        except SmError as error:
            if len(sessions) <= 1:
                raise
            failures.add(error)
            continue
        answers += answer["restored"] if every else [answer]
        if not call.as_json:
            _print(answer, every=every)
        left += [(answer, other) for other in answer.get("left", ())]
        for failed in answer["failed"]:
            failures.add(from_wire(failed["code"], failed["message"], failed["hint"]))
    if call.as_json:
        print_json(encode(answers[0] if len(sessions) == 1 else answers))
    elif not every:
        _print_left(left, {answer["session_id"] for answer in answers})
    return failures.code


def _agrees(error: FallbackOver, call: Call) -> bool:
    """Ask a person at a terminal whether the session goes on without a sandbox."""
    if (
        call.as_json
        or call.instance.session_id is not None
        or not (sys.stdin.isatty() and sys.stderr.isatty())
    ):
        return False
    return agrees(f"{line(error.message)}. Go on without a sandbox?")


def _doubt(session: JsonObject) -> str:
    """Say that the agent has not accepted its conversation yet; empty if it has."""
    match session["status"]:
        case Status.STARTING | Status.SPAWNED:
            return f"; it is not known yet whether the agent accepts its conversation: sm why {name_to_type(session)}"
        case Status.WAITING_INPUT:
            return f"; the agent waits: {line(session['status_reason'] or '')}"
        case _:
            return ""


def _print_left(left: Sequence[tuple[JsonObject, JsonObject]], restored: Collection[str]) -> None:
    """Name the sessions that ended with a restored one, and that this command has not restored."""
    by_session = {answer["session_id"]: answer for answer, _ in left}
    for session_id, answer in by_session.items():
        others = [o for a, o in left if a["session_id"] == session_id and o["session_id"] not in restored]
        if others:
            names = ", ".join(map(label, others[:_LEFT_SHOWN]))
            more = f" and {len(others) - _LEFT_SHOWN} more" if len(others) > _LEFT_SHOWN else ""
            click.echo(
                f"Not restored: {plural(len(others), 'descendant')} that ended with {label(answer)} ({names}{more}): "
                f"sm restore {name_to_type(answer)} --tree"
            )


def _print(answer: JsonObject, *, every: bool) -> None:
    if every:
        restored = answer["restored"]
    else:
        first = [answer] if answer["session_id"] in answer["restored"] else []
        restored = [*first, *answer["restored_too"]]
    losses = {loss["session_id"]: line(loss["message"]) for loss in answer.get("losses", ())}
    for session in restored:
        going = "; it goes on with its turn" if session["session_id"] in answer["continued"] else ""
        lost = f"; {losses[session['session_id']]}" if session["session_id"] in losses else ""
        click.echo(f"Restored {label(session)}{going}{lost}{_doubt(session)}")
    if every and not restored and not answer["failed"]:
        click.echo("no sessions to restore")
