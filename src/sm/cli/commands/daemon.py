"""Starts, stops and inspects the daemon, for `sm daemon`."""

import os
import sys
import time
from collections.abc import Iterator
from typing import TextIO

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_lines
from sm.cli.display.overview import log_line
from sm.cli.group import CommandGroup
from sm.cli.instance import Instance, daemon_stopped_error, start
from sm.cli.options import number_option
from sm.cli.stop_daemon import mark_stopped, stop, unmark_stopped
from sm.client.http import DaemonAway
from sm.core.lines import JsonObject, json_text, line, plural
from sm.core.timestamps import span
from sm.errors import IllegalState, NotPermitted, SmError
from sm.wire import decode, encode

_POLL_S = 0.25

_SUGGESTIONS = {
    "up": ("daemon start",),
    "reload": ("daemon restart",),
    "down": ("daemon stop",),
    "kill": ("daemon stop",),
    "restore": ("daemon restore-backup",),
    "install": ("service install",),
}


@click.group(cls=CommandGroup, suggestions=_SUGGESTIONS)
def command() -> None:
    """Start, stop and inspect the daemon.

    Rarely needed: any command starts the daemon. Agents keep running while the daemon is stopped.

    \b
    Examples:
      sm daemon status
    """


@command.command()
def run() -> None:
    """Run the daemon in the foreground, for systemd.

    \b
    Examples:
      sm daemon run
    """
    from sm.daemon.main import main

    unmark_stopped(Instance(os.environ))
    raise SystemExit(main(["--foreground"]))


@command.command("start")
@click.option("--new", is_flag=True, help="Begin an empty database if the database was lost or is damaged.")
def start_command(new: bool) -> None:
    """Start the daemon.

    Needed only after sm daemon stop; otherwise any command starts it.

    The daemon refuses a lost or damaged database. With --new it forgets all sessions and moves the files of the
    database and its backups into a directory. Agents keep running, but sm no longer knows them. To keep the sessions
    use sm daemon restore-backup.

    \b
    Examples:
      sm daemon start
      sm daemon start --new
    """
    instance = Instance(os.environ)
    if new:
        _refuse_sessions(instance, "begin a new database")
    client = instance.client(start=False)
    unmark_stopped(instance)
    try:
        pid = client.get("/v1/health")["pid"]
    except DaemonAway:
        start(instance, *(["--new"] if new else []))
        click.echo(f"daemon started, pid {client.get('/v1/health')['pid']}")
        return
    if new:
        raise IllegalState(
            f"the daemon is already running (pid {pid}), and uses the database", "sm daemon stop"
        )
    click.echo(f"the daemon is already running, pid {pid}")


@command.command("restore-backup")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, resolve_path=True))
def restore_backup_command(file: str | None) -> None:
    """Replace the database by a backup.

    FILE is a backup; by default the newest backup that has sessions. The daemon makes one backup a day, next to the
    database, and keeps seven. The replaced files are kept in a directory.

    Sessions and messages since the backup are lost. A message that the backup holds as queued is not sent again: it
    becomes unconfirmed.

    \b
    Examples:
      sm daemon restore-backup
    """
    from sm.daemon.database import restore_backup

    instance = Instance(os.environ)
    _refuse_sessions(instance, "restore a backup")
    restored = restore_backup(instance.paths, file)
    kept = f"; the replaced files are in {restored.replaced}" if restored.replaced else ""
    click.echo(f"restored {restored.backup} ({plural(restored.sessions, 'session')}){kept}")


@command.command("stop")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="End every agent first, close their terminals, and remove containers.",
)
def stop_command(everything: bool) -> None:
    """Stop the daemon.

    It stays stopped until sm daemon start or sm daemon restart. Agents keep running unless --all is given.

    \b
    Examples:
      sm daemon stop
      sm daemon stop --all
    """
    instance = Instance(os.environ)
    # The mark comes first, or a concurrent command would start the next daemon. The daemon refuses to stop for a
    # session, so a session sets no mark.
    sets_mark = instance.session_id is None and not instance.was_stopped
    if sets_mark:
        mark_stopped(instance)
    try:
        click.echo(stop(instance, everything=everything))
    except SmError:
        if sets_mark:
            unmark_stopped(instance)
        raise


@command.command()
def restart() -> None:
    """Restart the daemon.

    Needed after an upgrade and after a change of the configuration. Agents keep running. If the configuration has
    errors, the daemon is not stopped.

    \b
    Examples:
      sm daemon restart
    """
    from sm.config import load

    instance = Instance(os.environ)
    # A configuration that the next daemon would refuse must not stop the running one.
    load(instance.paths.config)
    click.echo(f"daemon restarted, pid {_restart(instance)}")


@command.command()
@json_option
def status(call: Call) -> None:
    """Show whether the daemon is running.

    \b
    Exit codes:
      0  the daemon is running
      7  it is not

    \b
    Examples:
      sm daemon status --json
    """
    instance = call.instance
    try:
        text = instance.client(start=False).text("GET", "/v1/health")
    except DaemonAway as away:
        raise (daemon_stopped_error() if instance.was_stopped else away) from None
    call.show(text, _health)


def _health(health: JsonObject) -> list[str]:
    return [
        f"running, pid {health['pid']}, version {line(health['version'])}, up {span(health['uptime_s'])}",
        f"socket {line(health['socket'])}",
        plural(health["sessions"], "live session"),
    ]


@command.command()
@number_option("--lines", "-n", most=None, default=50, help="Number of past lines.")
@click.option("--follow", "-f", "following", is_flag=True, help="Print new lines as they come, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the log records as JSON, one object per line.")
def logs(lines: int, following: bool, as_json: bool) -> None:
    """Show the daemon's log, or follow it.

    \b
    Examples:
      sm daemon logs --follow
    """
    show_log(lines, following=following, as_json=as_json)


def show_log(lines: int, *, following: bool, as_json: bool, logger: str = "") -> None:
    """Print the last records of the daemon's log, and with `following` new ones. `logger`: only of it and below."""
    path = f"{Instance(os.environ).paths.log}/daemon.log"
    try:
        file = _open(path)
    except FileNotFoundError:
        click.echo(f"no log yet in {path}", err=True)
        if not following:
            return
        while not os.path.exists(path):
            time.sleep(_POLL_S)
        file = _open(path)
    with file:
        records = [record for record in file.readlines() if _is_of(record, logger)]
        print_lines(_format(record, as_json=as_json) for record in records[max(0, len(records) - lines) :])
        if following:
            for record in _follow(path, file):
                if _is_of(record, logger):
                    click.echo(_format(record, as_json=as_json))


def _is_of(record: str, logger: str) -> bool:
    """True for a record of `logger` or below it; for an empty name, for every line."""
    if not logger:
        return True
    try:
        name = str(decode(record)["logger"])
    except (ValueError, TypeError, KeyError):
        return False
    return name == logger or name.startswith(logger + ".")


def restart_running(instance: Instance) -> int | None:
    """Restart the daemon and return its pid, or return None if no daemon runs."""
    try:
        instance.client(start=False).daemon_pid()
    except DaemonAway:
        return None
    return _restart(instance)


def _restart(instance: Instance) -> int:
    unmark_stopped(instance)
    stop(instance, everything=False)
    start(instance)
    return int(instance.client(start=False).get("/v1/health")["pid"])


def _format(record: str, *, as_json: bool) -> str:
    """Format a record of the log. A line that is no record becomes the message of one."""
    record = record.rstrip("\n")
    try:
        text = log_line(decode(record), None)
    except (ValueError, AttributeError):
        return encode({"message": record}) if as_json else line(record, 4000)
    return json_text(record) if as_json else text


def _open(path: str) -> TextIO:
    return open(path, encoding="utf-8", errors="replace")


def _follow(path: str, file: TextIO) -> Iterator[str]:
    """Yield new complete lines of a log, also after it is rotated."""
    rest = ""
    try:
        while True:
            sys.stdout.flush()
            piece = file.readline()
            if piece:
                rest += piece
                if rest.endswith("\n"):
                    yield rest
                    rest = ""
                continue
            try:
                rotated = os.stat(path).st_ino != os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                rotated = False  # the new file is not there yet
            if rotated and not (piece := file.readline()):
                file.close()
                file = _open(path)
            elif rotated:
                rest += piece
            else:
                time.sleep(_POLL_S)
    finally:
        file.close()


def _refuse_sessions(instance: Instance, what: str) -> None:
    """Raise NotPermitted if a session runs this command."""
    if instance.session_id is not None:
        raise NotPermitted(f"a session may not {what}", "only the operator may")
