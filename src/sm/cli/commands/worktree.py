"""Manages the git worktrees that sm has made, for `sm worktree`."""

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import now, print_json, print_lines, print_table
from sm.cli.display.text_table import Table
from sm.cli.group import CommandGroup
from sm.cli.options import session_names
from sm.cli.selection import ask, yes_option
from sm.client.http import Client
from sm.core.lines import JsonObject, age, line, plural
from sm.core.statuses import ENDED
from sm.errors import IllegalState, NotFound, NotPermitted
from sm.wire import encode

_SUGGESTIONS = {
    "list": ("worktree ls",),
    "add": ("spawn --worktree",),
    "create": ("spawn --worktree",),
    "new": ("spawn --worktree",),
    "rm": ("rm", "worktree prune"),
    "remove": ("rm", "worktree prune"),
    "shell": ("worktree open",),
    "cd": ("worktree open",),
}
_AT_ONCE = 8
"""Worktrees that are looked at at the same time, at most one for each processor."""
_FEW = 4
"""Worktrees for which threads are not worth it."""
_NAMED = 5
_PROGRESS_WIDTH = 40


@click.group(cls=CommandGroup, suggestions=_SUGGESTIONS)
def command() -> None:
    """Manage the git worktrees of agents.

    An agent that is started with sm spawn --worktree has a git worktree of its own, with sm spawn --copy a copy of a
    directory without git. sm rm deletes it with the session, unless that would lose work.

    \b
    Examples:
      sm worktree ls
      sm worktree open engineer-login
      sm worktree prune
    """


@command.command()
@click.option("--all", "every", is_flag=True, help="List the worktrees of live agents too.")
@json_option
def ls(every: bool, call: Call) -> None:
    """List the worktrees whose agents have ended.

    Those of all workspaces. Shows the size and the age of each one, and the work in it that exists nowhere else. The
    JSON is an array.

    \b
    Examples:
      sm worktree ls
      sm worktree ls --all --json
    """
    trees = _looked_at(call, [tree for tree in _trees(call) if every or _is_left(tree)])
    if call.as_json:
        print_json(encode(trees))
    elif not trees:
        print_lines(
            [
                "No worktrees"
                if every
                else "No worktrees of ended agents. Those of live agents: sm worktree ls --all"
            ]
        )
    else:
        print_table(Table([_row(tree) for tree in trees], aligned=5, is_cut=False))


@command.command()
@click.option("--discard", is_flag=True, help="Delete worktrees with work, or with a failing tear-down, too.")
@yes_option
@json_option
def prune(discard: bool, yes: bool, call: Call) -> None:
    """Delete the worktrees of removed sessions, of all workspaces.

    Those with work that exists nowhere else stay, and are listed, as do those whose tear-down fails. --discard names
    the work, asks a person and deletes it; without a terminal it needs --yes, and an agent may not do it. A branch
    stays while it has commits that no other branch or tag has. A worktree whose directory is missing is one of them as
    long as git knows it.

    \b
    Examples:
      sm worktree prune
      sm worktree prune --yes
    """
    left = [tree for tree in _trees(call) if tree["label"] is None and not tree["used"]]
    left = _looked_at(call, left)
    gone = [tree for tree in left if tree["work"] is None or (discard and _is_known(tree))]
    if gone:
        _ask(call, gone, discard=discard, yes=yes)
    warnings = [_why_kept(tree) for tree in left if tree not in gone]
    warnings += filter(None, (_remove(call, tree, discard=discard) for tree in gone))
    known = {tree["path"] for tree in _trees(call)}  # the daemon forgets those that are gone
    removed = [tree["path"] for tree in gone if tree["path"] not in known]
    print_warnings(warnings)
    kept = len(left) - len(removed)
    nothing = f"Kept {plural(kept, 'worktree')}" if kept else "No worktrees to delete"
    text = [f"Removed {line(path, 4096)}" for path in removed] or [nothing]
    call.show_value({"removed": removed, "kept": kept}, lambda _: text)


@command.command(name="open")
@click.argument("name", metavar="SESSION|PATH", shell_complete=session_names)
@json_option
def open_(name: str, call: Call) -> None:
    """Start a shell in the worktree of an agent.

    SESSION is the agent, PATH the directory of a worktree, or the end of it. The shell is that of SHELL.

    \b
    Examples:
      sm worktree open engineer-login
    """
    from sm.capabilities.worktrees.git.calls import is_sandboxed

    tree = _found(_trees(call), name)
    path = tree["path"]
    if not tree["exists"]:
        raise IllegalState(f"the directory of the worktree is gone: {line(path, 4096)}")
    if is_sandboxed(call.client, {path}):
        raise NotPermitted(
            f"a sandboxed session may have changed the programs that a shell runs in {line(path, 4096)}",
            "look at it inside the sandbox: sm sandbox shell WORKSPACE",
        )
    if call.as_json:
        print_json(encode({"path": path}))
        return
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        os.chdir(path)
        os.execv(shell, [shell])
    except OSError as error:
        raise IllegalState(f"cannot start {line(shell)} in {line(path, 4096)}: {error.strerror}") from None


def _trees(call: Call) -> list[JsonObject]:
    trees: list[JsonObject] = call.client.get("/v1/worktrees")
    return trees


def _is_known(tree: JsonObject) -> bool:
    """True if sm could look into the worktree."""
    from sm.capabilities.worktrees.work_parts import WorkPart

    return isinstance(tree["work"], WorkPart)


def _ask(call: Call, trees: Sequence[JsonObject], *, discard: bool, yes: bool) -> None:
    """Ask a person. Raises IllegalState if the answer is not yes, and for work without a terminal; NotPermitted."""
    commands = dict.fromkeys(
        line(command) for tree in trees for command in tree["teardown"] if tree["exists"]
    )
    after = f", after the tear-down {'; '.join(commands)}" if commands else ""
    if discard and call.instance.session_id is not None:
        raise NotPermitted("only the operator may use --discard", "ask the operator")
    if any(tree["work"] for tree in trees) and not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise IllegalState(
            f"--discard would delete work that exists nowhere else: {_named(trees)}",
            "to delete it: sm worktree prune --discard --yes",
        )
    ask(f"Delete {plural(len(trees), 'worktree')}: {_named(trees)}{after}?", yes=yes)


def _remove(call: Call, tree: JsonObject, *, discard: bool) -> str | None:
    """Remove the worktree of a removed session, with the work that a person has given up. Return a warning, or None."""
    from sm.capabilities.worktrees.trees import remove_tree
    from sm.capabilities.worktrees.work_parts import items_of

    given_up = items_of(filter(None, [tree["work"]])) if discard else None
    return remove_tree(_own(tree), partial(_reason_of_use, call, tree), given_up)


def _reason_of_use(call: Call, tree: JsonObject) -> str | None:
    """Return why the worktree of a removed session must stay now, or None."""
    from sm.capabilities.worktrees.trees import reason_of_sessions

    known = call.client.get("/v1/worktrees", {"path": tree["path"]})
    if not known:
        return "the daemon does not know it any more"
    used = any(now["used"] or now["label"] is not None for now in known)
    return reason_of_sessions(call.client, _own(tree), used=used)


def _is_left(tree: JsonObject) -> bool:
    return tree["label"] is None or tree["status"] in ENDED


def _looked_at(call: Call, trees: Sequence[JsonObject]) -> list[JsonObject]:
    """The worktrees with their sizes in bytes, and the work in each that exists nowhere else, or null.

    Looks at several of them at the same time, and shows on a terminal how many are done.
    """
    if len(trees) <= _FEW:
        return [_look_at(call.client, tree) for tree in trees]
    from concurrent.futures import ThreadPoolExecutor

    is_shown, looked = sys.stderr.isatty(), list[JsonObject]()
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE)) as pool:
        try:
            # A client that does not start the daemon: several threads would do that together.
            for tree in pool.map(partial(_look_at, Client(call.client.socket_path)), trees):
                looked.append(tree)
                if is_shown:
                    click.echo(f"\rlooked at {len(looked)} of {len(trees)}", nl=False, err=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # of those that have not begun
            if is_shown and looked:
                click.echo(f"\r{' ' * _PROGRESS_WIDTH}\r", nl=False, err=True)
    return looked


def _look_at(client: Client, tree: JsonObject) -> JsonObject:
    from sm.capabilities.worktrees.unsaved_work import tree_work

    size = _size_of(tree["path"]) if tree["exists"] else 0
    work = tree_work(client, _own(tree)) if tree["state"] == "made" else None
    return {**tree, "bytes": size, "work": work}


def _own(tree: JsonObject) -> Any:
    from sm.capabilities.worktrees.own_trees import known_tree

    return known_tree(tree)


def _size_of(path: str) -> int:
    total = 0
    for directory, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                continue
    return total


def _row(tree: JsonObject) -> tuple[str, ...]:
    session = "removed session" if tree["label"] is None else line(tree["label"])
    if tree["state"] != "made":
        state = f"being made: {line(tree['step'] or '')}"
    elif not tree["exists"]:
        state = _of_missing(tree)
    elif tree["used"]:
        state = "a session works there"
    else:
        state = "nothing would be lost" if tree["work"] is None else line(tree["work"], 1000)
    size = f"{tree['bytes'] / 1e6:.1f} MB"
    return (
        session,
        line(tree["branch"]),
        size,
        age(tree["created_at"], now()),
        line(tree["path"], 4096),
        state,
    )


def _of_missing(tree: JsonObject) -> str:
    gone = "its directory is gone"
    return gone if tree["work"] is None else f"{gone}; git still knows it: {line(tree['work'], 1000)}"


def _why_kept(tree: JsonObject) -> str:
    kept = f"kept {line(tree['path'], 4096)}: "
    if tree["exists"]:
        return f"{kept}{tree['work']}"
    main, path = (shlex.quote(line(tree[name], 4096)) for name in ("repository", "path"))
    return (
        f"{kept}its directory is missing, and git still knows it: {tree['work']}; to keep it: move the directory "
        f"back, or: git branch NAME COMMIT; to delete it: git -C {main} worktree remove --force {path}"
    )


def _named(trees: Sequence[JsonObject]) -> str:
    """The paths of the first worktrees, and the work of each one with work."""
    found = [
        f"{line(tree['path'], 200)} with {line(tree['work'], 1000)}"
        if tree["work"]
        else line(tree["path"], 200)
        for at, tree in enumerate(trees)
        if at < _NAMED or tree["work"]
    ]
    more = f" and {len(trees) - len(found)} more" if len(found) < len(trees) else ""
    return ", ".join(found) + more


def _found(trees: Sequence[JsonObject], name: str) -> JsonObject:
    wanted = name.rstrip("/")
    for tree in trees:
        if wanted in (tree["label"], tree["session_id"], tree["path"]):
            return tree
    ends = [tree for tree in trees if tree["path"].endswith(f"/{wanted}")]
    if len(ends) == 1:
        return ends[0]
    raise NotFound(f"no worktree {line(name)}", "sm worktree ls --all")
