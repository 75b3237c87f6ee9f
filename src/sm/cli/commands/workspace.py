"""Creates, changes, lists and deletes workspaces, for `sm workspace`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from sm.cli import agreements
from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.text_table import Table
from sm.cli.group import CommandGroup
from sm.cli.options import absolute, key_value, workspaces
from sm.client.http import workspace_path
from sm.core.lines import JsonObject, fact_lines, line, plural
from sm.errors import IllegalState, UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_SUGGESTIONS = {
    "ls": ("workspace list",),
    "add": ("workspace create",),
    "new": ("workspace create",),
    "init": ("workspace create",),
    "rm": ("workspace delete",),
    "remove": ("workspace delete",),
    "edit": ("workspace set",),
    "update": ("workspace set",),
    "trust": ("workspace agree",),
    "status": ("workspace show",),
}


@click.group(cls=CommandGroup, suggestions=_SUGGESTIONS)
def command() -> None:
    """Manage workspaces: teams of agents with a directory.

    Agents see and reach only the agents of their own workspace. They cannot create, change or delete workspaces.

    A new session belongs to the workspace that sm spawn --workspace names. Without that option it belongs to its
    parent's workspace; without a parent, to the workspace whose directory contains its working directory.

    \b
    Examples:
      sm workspace create shop --working-dir ~/projects/shop --trust direct
    """


_slug = click.argument("slug", metavar="WORKSPACE", shell_complete=workspaces)


def _settings(command: Command) -> Command:
    names = "names separated by commas, all, or none"
    for option in (
        click.option("--sandbox", metavar="KEY=VALUE", multiple=True,
                     help="Sandbox setting, as in the section sandbox of config.yaml; KEY= removes it. Repeatable."),
        click.option("--strict-mcps/--no-strict-mcps", default=None,
                     help="Whether to block MCP servers that --mcps does not select."),
        click.option("--agents", metavar="NAMES", help=f"Agent types that the sessions may spawn: {names}."),
        click.option("--skills", metavar="NAMES", help=f"Skills of the sessions: {names}."),
        click.option("--mcps", metavar="NAMES", help=f"MCP servers of the sessions: {names}."),
        click.option("--lifecycle", metavar="MODE",
                     help="Completion of the sessions: auto, manual, supervised, or default (as configured)."),
        click.option("--trust", metavar="LEVEL",
                     help="Trust level of the sessions: sandboxed, direct, or default (as configured)."),
    ):  # fmt: skip
        command = option(command)
    return command


@command.command()
@click.argument("slug", metavar="WORKSPACE")
@click.option("--working-dir", metavar="PATH", required=True, help="Directory of the workspace.")
@_settings
@json_option
def create(slug: str, working_dir: str, call: Call, **settings: Any) -> None:
    """Create a workspace, or bring back a deleted one.

    WORKSPACE is a name of 2 to 64 characters: a-z, 0-9 and dashes, except at either end. A deleted workspace comes
    back with its sessions.

    Agents do not get the MCP servers, agent types and commands of the directory's own files until you agree to them. On
    a terminal, the command asks. --mcps NAMES and --agents NAMES agree to those that they name.

    \b
    Examples:
      sm workspace create shop --working-dir ~/projects/shop --trust direct
    """
    body = {"slug": slug, "working_dir": absolute(working_dir), **_body(settings)}
    call.post("/v1/workspaces", lambda workspace: _changed("Created", workspace), body)
    if agreements.is_interactive() and not call.as_json:
        client = call.client
        created = client.get(workspace_path(slug))
        if items := agreements.pending(created):
            agreements.agree(client, created, items, yes=False)


@command.command()
@_slug
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Agree without a question.")
@json_option
def agree(slug: str, names: tuple[str, ...], yes: bool, call: Call) -> int:
    """Agree to MCP servers, agent types and commands of a project.

    Shows those that are new or have changed, and asks. Servers are in the .mcp.json of the workspace's directory, agent
    types in .sm/agents and .claude/agents, and the commands for new worktrees in .sm/project.yaml. Agents do not get
    them before you agree, and again not after they change. NAME selects some of them. Programs that a server or a
    command starts are not checked: an agent that can change their files changes what runs.

    \b
    Exit codes:
      0  agreed, or nothing to agree to
      4  you did not agree, or a file changed meanwhile

    \b
    Examples:
      sm workspace agree shop
      sm workspace agree shop files --yes
    """
    client = call.client
    workspace = client.get(workspace_path(slug))
    print_warnings(workspace["warnings"])
    items = agreements.chosen(workspace, names)
    after = agreements.agree(client, workspace, items, yes=yes) if items else workspace
    done = (
        f"agents of workspace {slug} may use {agreements.item_names(items)}"
        if items
        else "nothing to agree to"
    )
    call.show_value(after or workspace, lambda _: [done if after else "nothing was agreed"])
    return 0 if after else IllegalState.exit_code


@command.command("list")
@click.option("--deleted", is_flag=True, help="Include deleted workspaces.")
@json_option
def list_command(deleted: bool, call: Call) -> None:
    """List workspaces.

    An agent sees only its own workspace.

    \b
    Examples:
      sm workspace list
    """
    call.get("/v1/workspaces", _table, {"deleted": deleted})


@command.command()
@_slug
@json_option
def show(slug: str, call: Call) -> None:
    """Show the settings and sessions of a workspace.

    \b
    Examples:
      sm workspace show shop
    """
    call.show_with_warnings(call.client.text("GET", workspace_path(slug)), _block)


@command.command("set")
@_slug
@click.option("--working-dir", metavar="PATH", help="New directory of the workspace.")
@_settings
@json_option
def set_command(slug: str, working_dir: str | None, call: Call, **settings: Any) -> None:
    """Change the settings of a workspace.

    The change applies to sessions that start later. Settings that are not given stay as they are.

    \b
    Examples:
      sm workspace set shop --mcps files,browser --trust sandboxed
    """
    body = _body(settings)
    if working_dir is not None:
        body["working_dir"] = absolute(working_dir)
    if not body:
        raise UsageError("no setting given", "list the settings: sm workspace set --help")
    call.post(workspace_path(slug), lambda workspace: _changed("Changed", workspace), body)


@command.command()
@_slug
@json_option
def delete(slug: str, call: Call) -> None:
    """Delete a workspace in which no agent is running.

    The records of its sessions and the files in its directory are kept. No new session can start in the workspace.

    \b
    Examples:
      sm workspace delete shop
    """
    call.post(workspace_path(slug, "/delete"), lambda workspace: _changed("Deleted", workspace))


def _body(settings: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if settings["trust"] is not None:
        body["trust"] = None if settings["trust"] == "default" else settings["trust"]
    if settings["lifecycle"] is not None:
        body["lifecycle"] = None if settings["lifecycle"] == "default" else settings["lifecycle"]
    given = {kind: settings[kind] for kind in ("mcps", "skills", "agents") if settings[kind] is not None}
    if given:
        body["capabilities"] = {kind: _names(kind, text) for kind, text in given.items()}
    if settings["strict_mcps"] is not None:
        body["strict_mcps"] = settings["strict_mcps"]
    if settings["sandbox"]:
        pairs = key_value("--sandbox", settings["sandbox"], "--sandbox memory=2g")
        body["sandbox"] = {key.strip(): value.strip() for key, value in pairs.items()}
    return body


def _names(kind: str, text: str) -> str | list[str]:
    if text.strip() == "all":
        return "all"
    if text.strip() == "none":
        return []
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--{kind} {text!r} contains no name", f"to allow none: --{kind} none")
    return names


def _changed(done: str, workspace: JsonObject) -> list[str]:
    return [f"{done} workspace {workspace['slug']} ({line(workspace['working_dir'], 4096)})"]


def _table(workspaces: list[JsonObject]) -> Table:
    rows = [
        (w["slug"], line(w["trust_level"] or "default"), _count(w), line(w["working_dir"]))
        for w in workspaces
    ]
    return Table(rows, aligned=3, empty="no workspaces", is_cut=False)


def _count(workspace: JsonObject) -> str:
    if workspace["deleted_at"]:
        return "deleted"
    return f"{workspace['live']} of {plural(workspace['sessions'], 'session')} live"


def _block(workspace: JsonObject) -> list[str]:
    capabilities, slug, items = workspace["capabilities"], workspace["slug"], agreements.pending(workspace)
    facts = [
        ("Directory", workspace["working_dir"]),
        ("Trust", workspace["trust_level"] or "as configured (default_trust)"),
        ("Lifecycle", workspace["lifecycle"] or "as configured (child_agents.mode)"),
        ("Sessions", _count(workspace)),
        ("MCPs", _selection(capabilities["mcps"])),
        ("Skills", _selection(capabilities["skills"])),
        ("Agents", _selection(capabilities["agents"])),
        (
            "Left out",
            agreements.item_names(items) and f"{agreements.item_names(items)} (sm workspace agree {slug})",
        ),
        ("Strict", "other MCP servers are blocked" if workspace["strict_mcps"] else None),
        ("Sandbox", ", ".join(f"{key}={value}" for key, value in workspace["sandbox"].items())),
        ("Created", workspace["created_at"]),
        ("Deleted", workspace["deleted_at"]),
    ]
    return [workspace["slug"], *fact_lines(facts, 10_000)]


def _selection(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names) or "none"
