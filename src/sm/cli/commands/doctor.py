"""Check this machine for what sm needs.

Each line begins with ok, warning or problem. sm does not work until you mend a problem. A warning affects only the
agents or the feature that it names. The JSON is {"ok", "checks": [{"ok", "what", "todo", "needed"}]}; "needed" is false
for a warning.

\b
Exit codes:
  0  sm has everything that it needs; there may be warnings
  9  there is a problem; the output says how to mend it

\b
Examples:
  sm doctor
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

import click

from sm import __version__
from sm.cli.call import Call, json_option
from sm.cli.installation import SEGNO, TELEGRAM, TEXTUAL, install_command, path_command
from sm.cli.instance import Instance
from sm.cli.options import current_directory
from sm.client.http import Client, DaemonAway, workspace_path
from sm.core.lines import line, plural
from sm.core.programs import engine_of
from sm.errors import ExternalError, NotPermitted, SmError, UsageError
from sm.paths import SOCKET_PATH_MAX_BYTES, InstancePaths

_TMUX_MIN = (3, 2)
_TMUX_SAFE_PASTE = (3, 4)
"""The crash was measured with 3.3a. tmux mended it in February 2024, after 3.3a (tmux/tmux pull request 3830)."""
_SANDBOX_FREE_BYTES = 2 * 10**9
"""A build of the image needs this much."""
_CLOCK_MAX_S = 60
"""The difference between two clocks that is no reason to worry."""


class Check(NamedTuple):
    """The result of a check. `todo` is the command to type; `needed` is False when sm works without it."""

    ok: bool
    what: str
    todo: str | None = None
    needed: bool = True


@click.command(help=__doc__)
@json_option
def command(call: Call) -> int:
    instance = call.instance
    checks = [
        *_platform(),
        *_tmux(),
        *_config(instance),
        *_state(instance),
        *_daemon(instance),
        _path(),
        *_packages(),
        *_agent_clis(instance),
    ]
    ok = all(check.ok for check in checks if check.needed)
    answer = {"ok": ok, "checks": [check._asdict() for check in checks]}
    call.show_value(answer, lambda _: map(_line, checks))
    return 0 if ok else ExternalError.exit_code


def _line(check: Check) -> str:
    todo = f"  -> {line(check.todo, 2000)}" if check.todo else ""
    result = "ok" if check.ok else "problem" if check.needed else "warning"
    return f"{result:<7}  {line(check.what, 2000)}{todo}"


def _platform() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check(sys.version_info >= (3, 11), f"Python {version} at {sys.executable}")
    from sm.linux.platform import check_platform

    system = os.uname()
    try:
        check_platform()
        yield Check(True, f"{system.sysname} {system.release}")
    except SmError as error:
        yield Check(False, error.message, error.hint)


def tmux_version(output: str) -> tuple[int, int] | None:
    """Parse the output of `tmux -V`: `tmux 3.3a`, `tmux next-3.5`; None for `tmux master`."""
    match = re.search(r"(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else None


def _tmux() -> Iterator[Check]:
    path = shutil.which("tmux")
    if path is None:
        yield Check(False, "tmux is not installed", _install("tmux"))
        return
    try:
        output = subprocess.run(
            [path, "-V"], capture_output=True, text=True, timeout=10, check=False
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Check(False, f"cannot run {path}: {error}", _install("tmux"))
        return
    version = tmux_version(output)
    if version is not None and version < _TMUX_MIN:
        needed = ".".join(map(str, _TMUX_MIN))
        yield Check(False, f"{output} is too old, sm needs tmux {needed} or newer", _install("tmux"))
        return
    yield Check(True, f"{output} at {path}")
    if version is not None and version < _TMUX_SAFE_PASTE:
        fault = "crashes with all sessions when somebody pastes into a pane whose process has ended"
        yield Check(
            False,
            f"{output} {fault}: sm does not, and turns off the input of its kept terminals, but your own panes with"
            " remain-on-exit stay open to a paste",
            "upgrade tmux to 3.5 or newer",
            needed=False,
        )


def _install(package: str) -> str:
    sudo = "" if os.geteuid() == 0 else "sudo "
    for install in ("apt-get install", "dnf install", "pacman -S", "zypper install"):
        if shutil.which(install.split()[0]):
            return f"{sudo}{install} {package}"
    return f"install {package} with your package manager"


def _config(instance: Instance) -> Iterator[Check]:
    from sm.config import load

    path = instance.paths.config
    try:
        loaded = load(path)
    except SmError as error:
        yield Check(False, f"configuration: {error.message}", error.hint or f"edit {path}")
        return
    where = path if os.path.exists(path) else f"defaults ({path} does not exist)"
    yield Check(True, f"configuration: {where}")
    if loaded.rules:
        count = plural(len(loaded.rules), "rule")
        yield Check(True, f"permission rules: {instance.paths.rules} ({count}; see: sm agents)")
    for warning in loaded.warnings:
        yield Check(False, f"configuration: {warning}", f"edit {path}", needed=False)


def _state(instance: Instance) -> Iterator[Check]:
    path = instance.paths.state
    about = f"state directory {path}"
    try:
        status = os.stat(path)
    except FileNotFoundError:
        yield Check(True, f"{about} (not created yet)")
    except OSError as error:
        yield Check(False, f"cannot read {about}: {error.strerror}", "set SM_HOME to a directory of your own")
    else:
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISDIR(status.st_mode):
            yield Check(False, f"{path} is not a directory", f"rm {path}")
        elif status.st_uid != os.geteuid():
            yield Check(
                False, f"{about} belongs to user id {status.st_uid}", "run sm as the owner of the directory"
            )
        elif mode != 0o700:
            yield Check(False, f"{about} has mode {mode:04o}, not 0700", f"chmod 700 {path}")
        elif (fixed := _read_only_path(instance.paths)) is not None:
            read_only = os.statvfs(fixed).f_flag & os.ST_RDONLY
            todo = "mount its file system for writing, or set SM_HOME to another directory"
            yield Check(
                False,
                f"{about}: {fixed} is read-only",
                todo if read_only else f"chmod u+w {shlex.quote(fixed)}",
            )
        else:
            yield Check(True, about)
    length = len(os.fsencode(instance.socket_path))
    yield Check(
        length <= SOCKET_PATH_MAX_BYTES,
        f"socket path {instance.socket_path}: {length} of at most {SOCKET_PATH_MAX_BYTES} bytes",
        None if length <= SOCKET_PATH_MAX_BYTES else "set SM_HOME to a directory with a shorter path",
    )


def _read_only_path(paths: InstancePaths) -> str | None:
    """A file or directory that the daemon must write and may not."""
    places = (
        paths.state,
        paths.run,
        paths.bin,
        paths.log,
        paths.launch,
        paths.spool,
        paths.database,
        paths.lock,
    )
    return next((place for place in places if os.path.exists(place) and not os.access(place, os.W_OK)), None)


def _daemon(instance: Instance) -> Iterator[Check]:
    try:
        health = instance.client(start=False).get("/v1/health", timeout_s=5.0)
    except DaemonAway:
        if instance.was_stopped:
            yield Check(False, "daemon: stopped", "sm daemon start", needed=False)
        else:
            yield Check(True, "daemon: not running; the next command starts it")
        return
    except SmError as error:
        yield Check(False, f"daemon: {error.message}", error.hint)
        return
    yield Check(True, f"daemon: pid {health['pid']}, {plural(health['sessions'], 'live session')}")
    if health["version"] != __version__:
        yield Check(
            False, f"the daemon is version {health['version']}, this sm is {__version__}", "sm daemon restart"
        )
        return
    client = instance.client(start=False)
    found = [
        *_inherited_limits(client, health["pid"]),
        *_cgroups(client),
        *_mcp(instance),
        *_sandbox(client),
        *_agreements(client),
        *_telegram(client),
        *_web(instance),
        *_archives(client),
        *_files(client),
    ]
    yield from found
    yield from _trouble(client, " ".join(check.what for check in found))


def _trouble(client: Client, told: str) -> Iterator[Check]:
    """Pass on the problems that `sm status` shows, except those of other checks, whose texts are `told`."""
    try:
        trouble = client.get("/v1/status", timeout_s=5.0)["trouble"]
    except (SmError, KeyError):  # another check tells
        return
    for problem in (problem for problem in trouble if problem not in told):
        yield Check(False, f"the daemon reports: {problem}", needed=False)


def _inherited_limits(client: Client, daemon: int) -> Iterator[Check]:
    """Check that agents can have the limits and the priority of programs that this shell starts.

    The launch script cannot raise what agents inherit from the tmux server, and that from the daemon that started it.
    """
    from sm.cli.inherited_limits import command_to_raise, losses

    try:
        server = client.get("/v1/status", timeout_s=5.0)["terminal_server"]
    except (SmError, KeyError):  # another check tells
        return
    if server is not None and (lost := losses(server)):
        what = f"the tmux server (pid {server}) gives agents less than this shell has: {'; '.join(map(str, lost))}"
        yield Check(False, what, command_to_raise(server, lost), needed=False)
    if lost := losses(daemon):
        what = f"the daemon (pid {daemon}) gives a tmux server less than this shell has: {'; '.join(map(str, lost))}"
        yield Check(False, what, "sm daemon restart", needed=False)


def _archives(client: Client) -> Iterator[Check]:
    """Check that archives take no more room than they may."""
    try:
        status = client.get("/v1/archives", timeout_s=5.0)
    except SmError as error:
        yield Check(False, f"archives: {error.message}", error.hint, needed=False)
        return
    if status["bytes"] is None:
        return
    mb, most, held = status["bytes"] / 1_000_000, status["max_mb"], status["held"]
    limit = "no limit of room" if most is None else f"at most {most:,} MB"
    days = "without a limit of time" if status["keep_days"] is None else f"{status['keep_days']} days"
    yield Check(True, f"archives: {mb:,.1f} MB ({limit}), kept {days}")
    if held:
        over = f"archives take more than archives.max_mb, {most:,} MB: " if most and mb > most else ""
        have = "has" if held == 1 else "have"
        yield Check(
            False,
            f"{over}{plural(held, 'archive')} {have} the only copy of a conversation, and will be deleted a day after "
            "the notice of it",
            "sm inbox names them; sm export SESSION FILE keeps one; archives: in config.yaml sets the limits",
            needed=False,
        )


def _files(client: Client) -> Iterator[Check]:
    """Show the room of uploaded files that wait for a message, and how long they are kept."""
    try:
        status = client.get("/v1/files", timeout_s=5.0)
    except SmError as error:
        yield Check(False, f"uploaded files: {error.message}", error.hint, needed=False)
        return
    mb, most, hours = status["unused_bytes"] / 1_000_000, status["unused_max_mb"], status["unused_hours"]
    found = f"{plural(status['unused'], 'uploaded file')}, {mb:,.1f} MB (at most {most:,} MB)"
    yield Check(True, f"{found}, kept {plural(hours, 'hour')} for a message")


def _cgroups(client: Client) -> Iterator[Check]:
    """Check how the daemon finds processes that left the process tree of their agent."""
    try:
        cgroups = client.get("/v1/status", timeout_s=5.0)["cgroups"]
    except (SmError, KeyError):  # another check tells
        return
    if cgroups["available"]:
        yield Check(True, f"processes of sessions: by cgroup ({cgroups['reason']})")
    else:
        todo = "docs/lifecycle.md, Leftovers: start tmux and the daemon where your user may make cgroups"
        what = f"processes of sessions: without cgroups, so not all are found ({cgroups['reason']})"
        yield Check(False, what, todo, needed=False)


def _web(instance: Instance) -> Iterator[Check]:
    """Check that `sm web` runs, if the daemon has to run it."""
    from sm.config import load
    from sm.web.address import running_server

    try:
        is_wanted = load(instance.paths.config).config.web.start_with_daemon
    except SmError:  # another check tells
        return
    if not is_wanted:
        return
    address = running_server(instance.paths.web)
    if address is None:
        todo = "sm status names the reason; after a change of the configuration: sm daemon restart"
        yield Check(False, "sm web does not run", todo, needed=False)
    else:
        yield Check(True, f"sm web: {address.origin}; for a link: sm web link")


def _telegram(client: Client) -> Iterator[Check]:
    """Check the bot, if one is configured: its owners, its rights in groups, and the clock."""
    try:
        status = client.get("/v1/telegram", timeout_s=5.0)
    except SmError as error:
        yield Check(False, f"telegram: {error.message}", error.hint, needed=False)
        return
    if not status["configured"]:
        return
    bot = "the bot has not answered yet" if status["bot"] is None else f"bot @{status['bot']}"
    works = status["trouble"] is None and status["bot"] is not None
    yield Check(works, f"telegram: {status['trouble'] or bot}", needed=False)
    chats = {f"telegram:{chat['chat_id']}" for chat in status["chats"]}
    for owner in status["owners"]:
        if owner not in chats:
            todo = "send /start to the bot from this account"
            yield Check(False, f"telegram: owner {owner} has not written to the bot", todo, needed=False)
    for group in status["groups"]:
        yield _telegram_group(group)
    ahead_s = status["clock_ahead_s"]
    if ahead_s is not None and abs(ahead_s) > _CLOCK_MAX_S:
        direction = "ahead of" if ahead_s > 0 else "behind"
        wrong = f"telegram: the clock of this machine is {abs(ahead_s):.0f} s {direction} Telegram's"
        yield Check(False, wrong, "set the clock: commands from chats count as too old", needed=False)


def _telegram_group(group: Mapping[str, Any]) -> Check:
    """Check the rights of the bot in a group of the configuration."""
    name = f"telegram: group {group['chat_id']}"
    if group["problem"] is not None:
        return Check(False, f"{name}: {group['problem']}", "add the bot to the group", needed=False)
    if group["is_forum"] and not group["manages_topics"]:
        todo = "make the bot an administrator with the right to manage topics"
        return Check(False, f"{name}: the bot cannot manage topics", todo, needed=False)
    reads = "every message" if group["reads_all"] else "commands and replies to it (privacy mode)"
    return Check(True, f"{name}: the bot reads {reads}")


def _mcp(instance: Instance) -> Iterator[Check]:
    """Start `sm mcp`, as every agent with an MCP client does."""
    from sm.cli.mcp.check import measure

    try:
        times = measure(instance)
    except NotPermitted as error:  # mcp.enabled: false
        yield Check(True, f"MCP: {error.message}")
    except SmError as error:
        yield Check(False, f"MCP: sm mcp: {error.message}", error.hint, needed=False)
    else:
        tools = plural(times.tools, "tool")
        yield Check(True, f"MCP: sm mcp answered after {times.first_answer_ms} ms, with {tools}")


def _sandbox(client: Client) -> Iterator[Check]:
    """Check the engine and the image of sandboxed sessions. Direct sessions need none of it."""
    from sm.cli.display.sandbox_tables import size

    try:
        status = client.get("/v1/sandbox", timeout_s=15.0)
    except SmError as error:
        yield Check(False, f"sandboxes: {error.message}", error.hint, needed=False)
        return
    engine, image, name = status["engine"], status["image"], status["image_name"]
    if not engine["available"]:
        yield Check(False, f"sandboxes: {engine['problem']}", engine["hint"], needed=False)
        return
    cgroup, storage, user = engine["cgroup_version"], engine["storage_driver"], os.geteuid()
    yield Check(
        True,
        f"sandboxes: {engine_of(engine['url']).title} {engine['version']} at {engine['url']}, used as user id {user}, "
        f"cgroup v{cgroup}, storage {storage}",
    )
    if not engine["seccomp"]:
        yield Check(False, "sandboxes: the engine filters no system calls (seccomp is off)", needed=False)
    restart = (
        "containers survive" if engine["live_restore"] else "stops the containers; sm restores their sessions"
    )
    yield Check(
        True,
        f"sandboxes: live-restore {'on' if engine['live_restore'] else 'off'}: a restart of the engine {restart}",
    )
    if (free := engine["data_free_bytes"]) is not None:
        enough = free >= _SANDBOX_FREE_BYTES
        yield Check(
            enough,
            f"sandboxes: {size(free)} free in {engine['data_root']}",
            None if enough else "sm sandbox prune --images",
            needed=False,
        )
    if image is None:
        yield Check(False, f"sandboxes: the image {name} does not exist", "sm sandbox build", needed=False)
    else:
        agents = "" if image["agents"] is None else f" with {', '.join(image['agents']) or 'no agents'}"
        yield Check(True, f"sandboxes: image {name}{agents}")
        for warning in image["warnings"]:
            yield Check(False, f"sandboxes: {warning}", needed=False)
    others = status["other_instances"]
    shown = f", {plural(others, 'container')} of other instances" if others else ""
    yield Check(True, f"sandboxes: {plural(len(status['containers']), 'container')}{shown}")


def _agreements(client: Client) -> Iterator[Check]:
    """Check that agents get everything that the files of their workspaces define."""
    from sm.cli import agreements

    try:
        slugs = [workspace["slug"] for workspace in client.get("/v1/workspaces", timeout_s=5.0)]
        workspaces = [client.get(workspace_path(slug), timeout_s=15.0) for slug in slugs]
    except SmError as error:
        yield Check(False, f"workspaces: {error.message}", error.hint, needed=False)
        return
    for workspace in workspaces:
        slug = workspace["slug"]
        for warning in workspace["warnings"]:
            yield Check(False, f"workspace {slug}: {warning}", needed=False)
        if items := agreements.pending(workspace):
            left_out = f"workspace {slug}: left out until you agree: {agreements.item_names(items)}"
            yield Check(False, left_out, f"sm workspace agree {slug}", needed=False)


def _path() -> Check:
    path = shutil.which("sm")
    if path is None:
        return Check(False, "sm is not on your PATH", path_command(), needed=False)
    return Check(True, f"sm at {path}")


def _packages() -> Iterator[Check]:
    """Check the packages without which only a part of sm works. They may be missing in a damaged installation."""
    for requirement, module, part in (
        (TEXTUAL, "textual", "sm top"),
        (SEGNO, "segno", "sm web link --qr"),
        (TELEGRAM, "telegram", "the bot of Telegram"),
    ):
        if find_spec(module) is None:
            name = re.split("[<>=]", requirement)[0]
            missing = f"the package {name} is not installed: {part} does not work"
            yield Check(False, missing, install_command(requirement), needed=False)


def _agent_clis(instance: Instance) -> Iterator[Check]:
    from sm.config import load
    from sm.providers import checked_providers, make_providers

    try:
        config = load(instance.paths.config).config
    except SmError:
        return  # `_config` reports the error
    try:
        directory = current_directory()
    except UsageError as error:
        yield Check(False, error.message, error.hint, needed=False)
        directory = "/"
    for name, provider in make_providers(config).items():
        if provider.setup is not None:
            # Agents find a kept version of their CLI (sm provider) before the one on the PATH.
            environ = {**os.environ, "PATH": f"{instance.paths.bin}:{os.environ.get('PATH', os.defpath)}"}
            for check in provider.setup.checks(environ, directory):
                yield Check(check.ok, check.what, check.todo, needed=False)
        if name in checked_providers():
            yield from _contracts(instance, name)


def _contracts(instance: Instance, name: str) -> Iterator[Check]:
    """Say whether the contracts of a provider were tried with the program that its agents start."""
    from sm.cli.agent_programs import started_program
    from sm.providers.checks import CheckRecords, is_script, version_of

    program = started_program(instance, name)
    path = None if program is None else shutil.which(program)
    if path is None:
        return  # the check of the installation reports it
    path, version = os.path.realpath(path), None
    if is_script(path):
        with suppress(ExternalError):  # which the check of the installation reports
            version = version_of(path)
    record = CheckRecords(instance.paths.checks).find(name, path, version)
    if record is None:
        todo = f"sm check {name}"
        yield Check(
            False, f"it is not checked whether sm and this {name} understand each other", todo, needed=False
        )
        return
    what, day = f"{name} {record.program.version}", record.checked_at[:10]
    count = plural(len(record.outcomes), "contract")
    if not record.broken:
        yield Check(True, f"{what}: all of {count} held on {day}")
        return
    broken = ", ".join(outcome.name for outcome in record.broken)
    what = f"{what}: {len(record.broken)} of {count} did not hold on {day}: {broken}"
    yield Check(False, what, f"see what was found: sm check {name}", needed=False)
