"""Follows the worktree of `sm spawn --worktree`, and asks a person about the work that a removal would delete."""

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

import click

from sm.capabilities.worktrees.rules import is_copy
from sm.capabilities.worktrees.trees import clean
from sm.capabilities.worktrees.unsaved_work import UnsavedWork, unsaved_work_of
from sm.capabilities.worktrees.work_parts import items_of
from sm.cli.display.errors import print_warnings
from sm.cli.selection import agrees
from sm.client.http import Client, decode_answer, session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, line
from sm.core.session_lines import name_to_type
from sm.core.statuses import ENDED, Status
from sm.errors import AgentStartFailed, IllegalState, NotPermitted, SmError
from sm.wire import encode

__all__ = ["Removal", "UnsavedWork", "check_discard", "clean_up", "follow_worktree", "unsaved_work_of"]

_WAIT_S = 1
_LOOK_S = 0.2
_LINES_MAX = 1_000
_LINE_MAX = 1_000
_MATCHED = 3


def follow_worktree(
    client: Client, body: Mapping[str, object], key: str, answer: str, timeout_s: float
) -> str:
    """Wait until the worktree of a new session is set up and its agent runs. On a terminal, show how far it is.

    `body`, `key`, `answer`: of the request that has started the session. Ctrl-C ends the session and removes its
    worktree, unless a set-up has written files there that git does not ignore: then a warning tells that it stays.
    Raises the errors of a spawn. A session whose worktree cannot be made is removed: the caller has its error. It stays
    if a set-up has run, for the output.
    """
    started = decode_answer(answer)
    if started["status"] != Status.SPAWNED:
        return answer
    name, progress, output = name_to_type(started), _Progress(), _Output(client, started["session_id"])
    has_setup = False
    try:
        while (tree := _tree(client, started["session_id"])) is not None and tree["state"] != "made":
            if tree["state"] == "setting_up":
                has_setup = True
                progress.clear()
                if sys.stderr.isatty():
                    output.show()
                time.sleep(_LOOK_S)
            else:
                progress.show(f"{name}: {line(tree['step'])}")
    except KeyboardInterrupt:
        progress.clear()
        _end(client, started["session_id"], name)
        raise
    finally:
        progress.clear()
    # The same request again: its answer is that of the start.
    try:
        now = decode_answer(client.text("POST", "/v1/sessions", body=body, key=key, timeout_s=timeout_s))
    except AgentStartFailed:
        if tree is None and not has_setup:
            _forget(client, started["session_id"])
        raise
    if now["status"] in ENDED and now["started_at"] is None:
        raise AgentStartFailed(f"session {name} was ended before it started")
    if tree is None:
        return encode({**started, **now})
    made = {name: tree[name] for name in ("copied_files", "copied_bytes", "linked")}
    made |= {"copy_of": tree["repository"]} if is_copy(tree["path"], tree["git_directory"]) else {}
    warnings = [*started["warnings"], *now["warnings"], *tree["notes"]]
    return encode({**started, **now, "worktree_files": made, "warnings": warnings})


class _Progress:
    """One line on a terminal, which is written again and again."""

    _shown = 0

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{text}{' ' * (self._shown - len(text))}", nl=False, err=True)
            self._shown = len(text)

    def clear(self) -> None:
        if self._shown:
            click.echo(f"\r{' ' * self._shown}\r", nl=False, err=True)
        self._shown = 0


def _end(client: Client, session_id: str, name: str) -> None:
    """End a session whose worktree is being made. Warn of a worktree that stays. A second Ctrl-C does not wait."""
    client.post(session_path(session_id, "/kill"), {})
    with suppress(SmError):
        while (tree := _tree(client, session_id)) is not None and tree["state"] != "made":
            time.sleep(_LOOK_S)
        if tree is not None:
            told = f"the worktree {line(tree['path'], _LINE_MAX)} of session {name} stays"
            for text in (told, *tree["notes"]):
                click.echo(f"warning: {line(text, _LINE_MAX)}", err=True)


def _forget(client: Client, session_id: str) -> None:
    """Remove a session that has failed before it had a directory. It stays if the caller may not remove it."""
    with suppress(SmError):
        client.post(f"{session_path(session_id)}/remove", {})


def _tree(client: Client, session_id: str) -> JsonObject | None:
    trees: list[JsonObject] = client.get("/v1/worktrees", {"session": session_id, "wait_s": _WAIT_S})
    return trees[0] if trees else None


@dataclass(frozen=True, slots=True)
class Removal:
    """A removed session. `path`, `key`: of the request, which can be repeated. `answer`: the daemon's.

    `given_up`: as for `clean`.
    """

    path: str
    key: str
    answer: JsonObject
    given_up: Collection[str] | None = None

    @property
    def worktree(self) -> str | None:
        worktree = self.answer.get("worktree")
        return None if worktree is None else str(worktree["path"])

    def clean(self, client: Client) -> str | None:
        """Remove its worktree. Return a warning about what stays, or None."""
        if self.worktree is None:
            return None
        return clean(client, self.answer, partial(client.post, self.path, {}, key=self.key), self.given_up)


def clean_up(client: Client, removals: Sequence[Removal]) -> None:
    """Remove the worktrees of removed sessions, also after one that fails, and print a warning about each that stays.

    Ctrl-C ends it: the worktrees that were not removed are named.
    """
    for at, removal in enumerate(removals):
        try:
            warning = removal.clean(client)
        except KeyboardInterrupt:
            left = [
                path for one in removals[at:] if (path := one.worktree) is not None and os.path.lexists(path)
            ]
            if left:
                kept = ", ".join(line(path, 4096) for path in left)
                print_warnings([f"interrupted; kept {kept}; to delete the worktrees: sm worktree prune"])
            raise
        except (SmError, OSError) as error:
            reason = error.message if isinstance(error, SmError) else error.strerror
            warning = f"kept what is left of {line(str(removal.answer['removed']))}: {reason}"
        print_warnings([warning] if warning else [])


class _Output:
    """The lines of the terminal of a set-up that were printed."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._path = session_path(session_id, "/output")
        self._printed = list[str]()
        self._last = ""

    def show(self) -> None:
        """Print the new lines that are complete: the last one when it stays as it is."""
        try:
            lines: list[str] = self._client.get(self._path, {"lines": _LINES_MAX})["lines"]
        except SmError:  # the terminal is not open yet, or closed by now
            return
        last = lines[-1] if lines else ""
        complete = lines if last == self._last else lines[:-1]
        self._last = last
        for text in complete[self._known(complete) :]:
            click.echo(line(text, _LINE_MAX), err=True)
        self._printed = complete

    def _known(self, lines: list[str]) -> int:
        """The number of lines that were printed before. The terminal may have lost the first ones, or changed some."""
        count = len(self._printed)
        if count < _LINES_MAX - 1:
            has_grown = 0 < count <= len(lines) and lines[count - 1] != self._printed[-1]
            return count - has_grown
        last = self._printed[-_MATCHED:]
        places = range(len(lines) - len(last), -1, -1)
        return next((at + len(last) for at in places if lines[at : at + len(last)] == last), 0)


def check_discard(work: UnsavedWork, *, by_session: bool, yes: bool) -> Collection[str] | None:
    """Ask a person at a terminal whether `--discard` may delete the work. Return its items, which are given up.

    None for work that sm cannot look into: the worktree stays. Raises IllegalState and NotPermitted.
    """
    if by_session:
        raise NotPermitted(f"only the operator may delete {work}", "ask the operator")
    if work.unknown is not None:
        return None
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise IllegalState(
            f"--discard would delete {work}",
            f"to delete it: sm rm {name_to_type(work.session)} --discard --yes",
        )
    if not yes and not agrees(f"Delete {work}?"):
        raise IllegalState("cancelled")
    return items_of(work.parts)
