"""Remove the daemon, the service and the state of sm.

Ends the daemon, closes the terminals of all sessions, and deletes the systemd service and the state directory: the
database with sessions and messages, logs, saved terminal output. The configuration, git worktrees and the program
itself stay; the command lists them, with the command that deletes each of them. Directories that sm trust marked as
trusted stay so.

The command is refused while agents run. --kill-agents ends them first. On a terminal, the command asks before; without
a terminal it needs --yes.

The JSON is {"removed": [PATH], "kept": [{"path", "command"}]}.

\b
Exit codes:
  0  done
  4  agents run, or you answered no

\b
Examples:
  sm uninstall
  sm uninstall --kill-agents --yes
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence

import click

from sm.cli.call import Call, json_option
from sm.cli.commands.service import remove_unit, unit_of
from sm.cli.installation import is_removed_with_its_link, uninstall_command
from sm.cli.instance import Instance, start
from sm.cli.selection import ask, running_trees, yes_option
from sm.cli.stop_daemon import mark_stopped, stop
from sm.client.http import DaemonAway
from sm.client.pages import whole_list
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import label
from sm.errors import ExternalError, IllegalState, NotPermitted, UsageError

_SHOWN_MAX = 5
_STARTUP_FILES = (".bashrc", ".bash_profile", ".zshrc", ".config/fish/config.fish")


@click.command(help=__doc__)
@click.option("--kill-agents", is_flag=True, help="End running agents too.")
@yes_option
@json_option
def command(kill_agents: bool, yes: bool, call: Call) -> None:
    instance = call.instance
    if instance.session_id is not None:
        raise NotPermitted("only the operator may uninstall sm")
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("sm uninstall asks before it deletes, and this is no terminal", "sm uninstall --yes")
    is_used = os.path.lexists(instance.paths.database)
    sessions = _sessions(instance, kill_agents=kill_agents) if is_used else []
    removed = [path for path in (instance.paths.state, unit_of(instance)) if path and os.path.lexists(path)]
    kept = list(_kept(instance, sessions))
    _print_plan(removed, kept)
    if not removed:
        call.show_value({"removed": [], "kept": kept}, lambda _: ["nothing to remove"])
        return
    ask("Remove sm?", yes=yes)
    if is_used:
        mark_stopped(instance)  # or a concurrent command would start the next daemon
        stop(instance, everything=True)
    if unit_of(instance) in removed:
        remove_unit()
    try:
        if instance.paths.state in removed:
            shutil.rmtree(instance.paths.state)
    except OSError as error:
        raise ExternalError(
            f"cannot delete {error.filename}: {(error.strerror or str(error)).lower()}"
        ) from None
    call.show_value(
        {"removed": removed, "kept": kept}, lambda _: [f"Removed {line(path, 4096)}" for path in removed]
    )


def _sessions(instance: Instance, *, kill_agents: bool) -> list[JsonObject]:
    """All sessions. Raises IllegalState if agents run and may not be killed."""
    client = instance.client(start=False)
    try:
        client.daemon_pid()
    except DaemonAway:
        start(instance)  # only a daemon knows the sessions and can end them
    running = running_trees(client, None, None)
    if running and not kill_agents:
        names = ", ".join(label(session) for session in running[:_SHOWN_MAX])
        more = f" and {len(running) - _SHOWN_MAX} more" if len(running) > _SHOWN_MAX else ""
        raise IllegalState(
            f"{plural(len(running), 'agent')} still running: {names}{more}",
            "end them too: sm uninstall --kill-agents",
        )
    return whole_list(client, "/v1/sessions", {"archived": True})


def _kept(instance: Instance, sessions: Sequence[JsonObject]) -> Iterator[dict[str, str]]:
    """The paths that stay, each with the command that deletes it."""
    for file in filter(os.path.lexists, (instance.paths.config, instance.paths.rules)):
        yield _entry(file, "rm {}")
    if os.path.isdir(agents := f"{instance.paths.home}/agents"):
        yield _entry(agents, "rm -r {}")
    worktrees = {str(session["worktree"]["path"]) for session in sessions if session["worktree"]}
    for path in sorted(filter(os.path.lexists, worktrees)):
        is_copy = os.path.isdir(f"{path}/.git")
        main = shlex.quote(os.path.dirname(path))
        yield _entry(path, "rm -r {}" if is_copy else f"git -C {main} worktree remove {{}}")
    home = os.path.expanduser("~")
    for name in _STARTUP_FILES:
        if _mentions_completion(path := f"{home}/{name}"):
            yield _entry(path, "sed -i '/sm completion/d' {}")
    link, program = f"{home}/.local/bin/sm", os.path.abspath(sys.argv[0])
    real = os.path.realpath(program)
    if is_removed_with_its_link(real):
        yield {"path": program, "command": uninstall_command(real)}
    elif os.path.islink(link) and os.path.realpath(link) == real:
        yield _entry(link, "rm {}")
    elif os.access(program, os.X_OK):
        yield {"path": program, "command": uninstall_command(real)}


def _entry(path: str, command: str) -> dict[str, str]:
    return {"path": path, "command": command.format(shlex.quote(path))}


def _mentions_completion(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return "sm completion" in file.read()
    except OSError:
        return False


def _print_plan(removed: Sequence[str], kept: Sequence[JsonObject]) -> None:
    for title, rows in (
        ("Will be deleted:", [line(path, 4096) for path in removed]),
        (
            "Stays, with the command that deletes it:",
            [f"{line(k['path'], 4096)}  ({line(k['command'], 4096)})" for k in kept],
        ),
    ):
        if rows:
            click.echo("\n".join([title, *(f"  {row}" for row in rows)]), err=True)
