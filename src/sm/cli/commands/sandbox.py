"""Builds the image of sandboxes and manages their containers, for `sm sandbox`."""

import os
import sys

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import print_lines, width
from sm.cli.display.sandbox_tables import (
    build_summary,
    done_line,
    status_lines,
    step_line,
    unused_lines,
    unused_total,
)
from sm.cli.group import CommandGroup
from sm.cli.options import number_option, sandbox_names
from sm.cli.selection import ask, yes_option
from sm.client.http import percent_encode
from sm.core.columns import cut
from sm.core.lines import JsonObject, line
from sm.core.programs import image_agents, login_commands
from sm.errors import ExternalError, NotFound, UsageError

_WAIT_S = 20
_ENTER_S = 120.0
_STOP_S = 120.0
_FORWARDED = ("_PROXY", "NPM_CONFIG_REGISTRY")

_SUGGESTIONS = {
    "ls": ("sandbox status",),
    "list": ("sandbox status",),
    "ps": ("sandbox status",),
    "exec": ("sandbox shell",),
    "attach": ("sandbox shell",),
    "create": ("sandbox build",),
    "pull": ("sandbox build",),
    "remove": ("sandbox rm",),
    "delete": ("sandbox rm",),
    "clean": ("sandbox prune",),
}


@click.group(cls=CommandGroup, suggestions=_SUGGESTIONS)
def command() -> None:
    """Manage the containers of sandboxed agents, and their image.

    Each workspace has one container, and default is the container for sessions without a workspace. The first session
    makes it. Needs Docker on this machine. Agents cannot use these commands.

    \b
    Examples:
      sm sandbox build --with claude
      sm sandbox status
    """


_name = click.argument("name", metavar="WORKSPACE|default", shell_complete=sandbox_names)
_force = click.option("--force", is_flag=True, help="End the agents and all other processes in it.")


@command.command()
@click.option(
    "--with",
    "agents",
    metavar="NAMES",
    default=next(iter(image_agents())),
    show_default=True,
    help=f"Programs in the image, separated by commas: {', '.join(image_agents())}, node, or none. "
    "NAME@VERSION chooses a version of an agent, NAME@latest the newest.",
)
@click.option("--no-cache", is_flag=True, help="Repeat every step.")
@click.option("--pull", is_flag=True, help="Ask the registry for a newer base image.")
@json_option
def build(agents: str, no_cache: bool, pull: bool, call: Call) -> None:
    """Build the image of the containers.

    The image has git, ripgrep, python3, curl, jq and the programs of --with. claude comes in the version that sm was
    tested with. node is Debian's, with npm.

    The build uses the network of this machine, and the certificates that this machine trusts (sandbox.ca_file). It gets
    HTTP_PROXY, HTTPS_PROXY, NO_PROXY and NPM_CONFIG_REGISTRY from your shell. A failed build leaves the image as it is.
    Containers get the new image when nothing runs in them.

    \b
    Exit codes:
      0  built
      4  a build with other options is running
      9  the build failed; the output shows the last lines of its step

    \b
    Examples:
      sm sandbox build
      sm sandbox build --with claude@latest,node --pull
    """
    names = [] if agents.strip() == "none" else [name.strip() for name in agents.split(",") if name.strip()]
    body = {"agents": names, "no_cache": no_cache, "pull": pull, "environment": _build_environment()}
    client = call.client
    progress = client.post("/v1/sandbox/build", body)
    columns = width() if not call.as_json else None
    try:
        while not _show_progress(progress, columns, quiet=call.as_json):
            progress = client.get(
                "/v1/sandbox/build", {"after": progress["next"], "wait_s": _WAIT_S}, timeout_s=60
            )
    finally:
        if columns:
            click.echo("\r\x1b[K", nl=False)
    image = progress["image"]
    print_warnings(image["warnings"])
    call.show_value(image, lambda _: [build_summary(image)])


def _build_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper().endswith(_FORWARDED)}


def _show_progress(progress: JsonObject, columns: int | None, *, quiet: bool) -> bool:
    """Print new lines, and return True when the build is done.

    On a terminal, the output of a step is one line that changes. Elsewhere only steps are printed.
    """
    for entry in progress["lines"] if not quiet else ():
        text = line(entry["text"], 2000)
        if columns:
            start, end = ("\r\x1b[K", "\n") if entry["step"] else ("\r\x1b[K  ", "")
            click.echo(start + cut(text, max(1, columns - 4)) + end, nl=False)
        elif entry["step"]:
            click.echo(step_line(text))
    sys.stdout.flush()
    return bool(progress["done"])


@command.command()
@json_option
def status(call: Call) -> None:
    """Show the engine, the image and the containers.

    \b
    Examples:
      sm sandbox status --json
    """
    call.get("/v1/sandbox", status_lines)


@command.command()
@_name
@_force
@json_option
def stop(name: str, force: bool, call: Call) -> None:
    """Stop a container.

    The next session starts it again. Its home, with logins and conversations, stays.

    \b
    Exit codes:
      0  stopped
      3  there is no such container
      4  agents or other processes run in it

    \b
    Examples:
      sm sandbox stop shop
    """
    body = {"force": force}
    call.post(_path(name, "stop"), lambda done: [done_line("Stopped", done)], body, timeout_s=_STOP_S)


@command.command()
@_name
@_force
@json_option
def rm(name: str, force: bool, call: Call) -> None:
    """Remove a container.

    The next session makes it anew, with the current configuration and image. Its home, with logins and conversations,
    stays.

    \b
    Exit codes:
      0  removed
      3  there is no such container
      4  agents or other processes run in it

    \b
    Examples:
      sm sandbox rm shop
    """
    body = {"force": force}
    call.post(_path(name, "remove"), lambda done: [done_line("Removed", done)], body, timeout_s=_STOP_S)


@command.command()
@_name
def shell(name: str) -> None:
    """Open a shell in a container.

    It runs as the user of the agents, with their home and limits.

    \b
    Examples:
      sm sandbox shell shop
    """
    _enter(name, None)


@command.command()
@_name
@click.argument(
    "agent", required=False, default=next(iter(login_commands())), type=click.Choice([*login_commands()])
)
def login(name: str, agent: str) -> None:
    """Log in to an agent CLI in a container.

    Starts the login of claude, or of AGENT. The login stays in the container's home, also after sm sandbox rm.

    \b
    Examples:
      sm sandbox login shop
    """
    _enter(name, agent)


def _enter(name: str, agent: str | None) -> None:
    """Replace this process by a command in the container. Raises UsageError without a terminal."""
    client = Call(as_json=False).client
    argv = [
        str(part) for part in client.post(_path(name, "enter"), {"login": agent}, timeout_s=_ENTER_S)["argv"]
    ]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("this command needs a terminal")
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise ExternalError(f"cannot run {argv[0]}: {error.strerror}", "sm doctor") from None


@command.command()
@number_option("--lines", "-n", most=None, default=50, help="Number of past lines.")
@click.option("--follow", "-f", "following", is_flag=True, help="Print new lines as they come, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the log records as JSON, one object per line.")
def logs(lines: int, following: bool, as_json: bool) -> None:
    """Show what the daemon's log says about containers.

    These are starts and ends of containers, lack of memory, and losses of the engine.

    \b
    Examples:
      sm sandbox logs --follow
    """
    from sm.cli.commands.daemon import show_log

    show_log(lines, following=following, as_json=as_json, logger="sm.sandboxes")


@command.command()
@click.option(
    "--homes", is_flag=True, help="Also the homes of deleted workspaces: their logins and conversations."
)
@click.option("--images", is_flag=True, help="Also images that were replaced, and the cache of their builds.")
@yes_option
@json_option
def prune(homes: bool, images: bool, yes: bool, call: Call) -> None:
    """Remove containers, homes and images that nothing uses.

    Without options: stopped containers without sessions. The next session makes them anew. On a terminal, the command
    shows what it removes and asks before.

    \b
    Examples:
      sm sandbox prune --images
    """
    client = call.client
    unused = client.get("/v1/sandbox/unused", {"homes": homes, "images": images}, timeout_s=_STOP_S)
    if unused and not call.as_json:
        print_lines(unused_lines(unused))
        ask(f"Remove {unused_total(unused)}?", yes=yes)
    body = {"homes": homes, "images": images}
    removed = client.post("/v1/sandbox/prune", body, timeout_s=_STOP_S) if unused else []
    call.show_value(
        removed, lambda _: [f"Removed {unused_total(removed)}" if removed else "Nothing to remove"]
    )


def _path(name: str, action: str) -> str:
    """Raises NotFound for a name that cannot be one of a workspace."""
    if name in ("", ".", ".."):
        raise NotFound(f"no such workspace: {name!r}", "list workspaces: sm workspace list")
    return f"/v1/sandbox/containers/{percent_encode(name)}/{action}"
