"""Arguments and options that several commands share, and the completion of session names."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

COMPLETION_S = 1.0
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")


def session_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids and names that begin with `incomplete`, of the daemon that runs; nothing when none does.

    Names that a shell could take for more than a word are left out.
    """
    from sm.cli.instance import Instance
    from sm.errors import SmError

    try:
        client = Instance(os.environ).client(start=False)
        sessions = client.get("/v1/sessions", timeout_s=COMPLETION_S)
    except (SmError, OSError):
        return []
    names = [
        name
        for session in sessions
        for name in (session["friendly_name"] or session["name"], session["session_id"])
    ]
    return [name for name in names if name.startswith(incomplete) and set(name) <= _SAFE]


def agent_types_query(session_id: str | None, workspace: str | None) -> dict[str, object]:
    """The query of /v1/agents: what decides which agent types a spawn from here would find."""
    query: dict[str, object] = {"workspace": workspace}
    if session_id is None:
        query |= {"home": os.environ.get("HOME"), "claude_config_dir": os.environ.get("CLAUDE_CONFIG_DIR")}
        try:
            query["cwd"] = os.getcwd()
        except FileNotFoundError:
            query["cwd"] = None
    return query


def agent_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Agent types that can be spawned here, as `session_names`."""
    from sm.cli.instance import Instance
    from sm.errors import SmError

    try:
        instance = Instance(os.environ)
        query = agent_types_query(instance.session_id, context.params.get("workspace"))
        found = instance.client(start=False).get("/v1/agents", query, timeout_s=COMPLETION_S)
    except (SmError, OSError):
        return []
    usable = (a["name"] for a in found["agents"] if not a["problem"] and not a["shadowed_by"])
    return [name for name in usable if name.startswith(incomplete) and set(name) <= _SAFE]


def session_argument(*, required: bool = True, metavar: str = "ID") -> Callable[[Command], Command]:
    """ID: an id, a unique prefix of one, a name or friendly name."""
    shown = metavar if required else f"[{metavar}]"
    return click.argument("session", metavar=shown, required=required, shell_complete=session_names)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too (on stderr).")(
        command
    )


def rate_wait_option(command: Command) -> Command:
    """--rate-wait of the commands whose number in a time is limited for a session."""
    from sm.cli.instance import RATE_WAIT_S

    return click.option(
        "--rate-wait",
        "rate_wait_s",
        type=click.FloatRange(min=0, max=86_400),
        default=RATE_WAIT_S,
        show_default=True,
        metavar="SECONDS",
        help="From an agent that is too fast: wait so long in all, then exit 6.",
    )(command)


def workspaces(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Slugs of workspaces, as `session_names`."""
    from sm.cli.instance import Instance
    from sm.errors import SmError

    try:
        found = Instance(os.environ).client(start=False).get("/v1/workspaces", timeout_s=COMPLETION_S)
    except (SmError, OSError):
        return []
    return [w["slug"] for w in found if w["slug"].startswith(incomplete)]


def workspace_option(command: Command) -> Command:
    """--workspace of every command that lists what belongs to sessions."""
    return click.option(
        "--workspace",
        metavar="SLUG",
        shell_complete=workspaces,
        help="Only those of this workspace; - is those in none.",
    )(command)


def narrowing_options(command: Command) -> Command:
    """--archived, --search and --workspace of every command that lists sessions."""
    search = click.option(
        "--search",
        metavar="WORDS",
        help="Only those whose names, notes, results or directory hold all of these.",
    )
    return click.option("--archived", is_flag=True, help="The archived ones too.")(
        search(workspace_option(command))
    )
