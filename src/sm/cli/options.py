"""Defines arguments and options that several commands share, and the completion of names."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

COMPLETION_S = 1.0
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")


def session_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids and names that begin with `incomplete`, of the daemon that runs; nothing when none does.

    Names that a shell could take for more than a word are left out.
    """
    sessions = _listed("/v1/sessions")
    return _fitting(
        (name for s in sessions for name in (s["friendly_name"] or s["name"], s["session_id"])), incomplete
    )


def open_requests(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Open requests, and the sessions that have any, as `session_names`."""
    requests = _listed("/v1/requests")
    sessions = dict.fromkeys(name for r in requests for name in (r["name"] or "", r["session_id"]))
    return _fitting([*(r["request_id"] for r in requests), *sessions], incomplete)


def requests_and_sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Open requests and sessions, as `session_names`; settled requests too, once something is typed."""
    requests = _listed("/v1/requests", {"all": bool(incomplete)})
    return [
        *_fitting((r["request_id"] for r in requests), incomplete),
        *session_names(context, parameter, incomplete),
    ]


def _listed(path: str, query: Mapping[str, object] | None = None) -> list[Mapping[str, Any]]:
    """What the daemon that runs lists there; nothing when none does."""
    from sm.cli.instance import Instance
    from sm.errors import SmError

    try:
        found: list[Mapping[str, Any]] = (
            Instance(os.environ).client(start=False).get(path, query, timeout_s=COMPLETION_S)
        )
    except (SmError, OSError):
        return []
    return found


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name and name.startswith(incomplete) and set(name) <= _SAFE]


def agent_types_query(session_id: str | None, workspace: str | None) -> dict[str, object]:
    """The query of /v1/agents: what decides which agent types a spawn from here would find."""
    query: dict[str, object] = {"workspace": workspace}
    if session_id is None:
        from sm.providers import LOCATION_VARIABLES

        query |= {name.lower(): os.environ.get(name) for name in LOCATION_VARIABLES}
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
    return _fitting(
        (a["name"] for a in found["agents"] if not a["problem"] and not a["shadowed_by"]), incomplete
    )


def session_argument(*, required: bool = True) -> Callable[[Command], Command]:
    """ID: an id, a unique prefix of one, a name or friendly name."""
    shown = "ID" if required else "[ID]"
    return click.argument("session", metavar=shown, required=required, shell_complete=session_names)


def request_argument(command: Command) -> Command:
    """REQUEST|ID: the name of an open request, or a session that has exactly one."""
    return click.argument("request", metavar="REQUEST|ID", shell_complete=open_requests)(command)


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
    return _fitting((w["slug"] for w in _listed("/v1/workspaces")), incomplete)


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
