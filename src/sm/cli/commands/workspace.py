"""Creates, changes, lists and deletes workspaces, for `sm workspace`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import Table
from sm.cli.display.text import JsonObject, line, plural
from sm.cli.options import absolute, key_value, workspaces
from sm.client.http import workspace_path
from sm.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def command() -> None:
    """Make and change workspaces: teams, each with a directory.

    Agents of one workspace find, start and write to one another; those of another one do not exist for them. A
    session belongs to the workspace that --workspace of sm spawn names, else to the one whose directory is the nearest
    above its own; its children belong to the same.

    \b
    Example:
      sm workspace create shop --working-dir ~/projects/shop --trust direct
    """


_slug = click.argument("slug", metavar="SLUG", shell_complete=workspaces)


def _settings(command: Command) -> Command:
    """Add the options of `create` and `set`, except the directory."""
    names = "names with commas between, all, or none"
    for option in (
        click.option("--sandbox", metavar="KEY=VALUE", multiple=True,
                     help="A setting of its container, as under sandbox: in the configuration; KEY= takes it away."),
        click.option("--strict-mcps/--no-strict-mcps", default=None,
                     help="Whether its sessions get no MCP servers but those that sm gives them."),
        click.option("--agents", metavar="NAMES", help="Agent types, likewise."),
        click.option("--skills", metavar="NAMES", help="Skills, likewise."),
        click.option("--mcps", metavar="NAMES", help=f"MCP servers that its sessions get: {names}."),
        click.option("--trust", metavar="LEVEL", help="Of its sessions: sandboxed or direct; default: as configured."),
    ):  # fmt: skip
        command = option(command)
    return command


@command.command()
@click.argument("slug", metavar="SLUG")
@click.option("--working-dir", metavar="DIR", required=True, help="Its directory.")
@_settings
@json_option
def create(slug: str, working_dir: str, call: Call, **settings: Any) -> None:
    """Make a workspace.

    SLUG is 2 to 64 of a-z, 0-9 and dash. A workspace that was deleted comes back, with the sessions that it had.

    \b
    Example:
      sm workspace create shop --working-dir ~/projects/shop --trust direct
    """
    body = {"slug": slug, "working_dir": absolute(working_dir), **_body(settings)}
    call.post("/v1/workspaces", lambda workspace: _changed("Created", workspace), body)


@command.command("list")
@click.option("--deleted", is_flag=True, help="The deleted ones too.")
@json_option
def list_command(deleted: bool, call: Call) -> None:
    """List the workspaces; in an agent, its own.

    \b
    Example:
      sm workspace list
    """
    call.get("/v1/workspaces", _table, {"deleted": deleted})


@command.command()
@_slug
@json_option
def show(slug: str, call: Call) -> None:
    """Show everything about a workspace.

    \b
    Example:
      sm workspace show shop
    """
    call.get(workspace_path(slug), _block)


@command.command("set")
@_slug
@click.option("--working-dir", metavar="DIR", help="Another directory.")
@_settings
@json_option
def set_command(slug: str, working_dir: str | None, call: Call, **settings: Any) -> None:
    """Change a workspace; it counts for what is started from then on.

    \b
    Example:
      sm workspace set shop --mcps files,browser --trust sandboxed
    """
    body = _body(settings)
    if working_dir is not None:
        body["working_dir"] = absolute(working_dir)
    if not body:
        raise UsageError("nothing to change", "sm workspace set --help shows what there is")
    call.post(workspace_path(slug), lambda workspace: _changed("Changed", workspace), body)


@command.command()
@_slug
@json_option
def delete(slug: str, call: Call) -> None:
    """Delete a workspace none of whose agents runs any more.

    Its sessions stay readable and its directory as it is; nothing new is started in it.

    \b
    Example:
      sm workspace delete shop
    """
    call.post(workspace_path(slug, "/delete"), lambda workspace: _changed("Deleted", workspace))


def _body(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Build the request body from the options that were given."""
    body: dict[str, Any] = {}
    if settings["trust"] is not None:
        body["trust"] = None if settings["trust"] == "default" else settings["trust"]
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
        raise UsageError(f"--{kind} {text!r} names nothing", f"--{kind} none")
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
    capabilities = workspace["capabilities"]
    facts = [
        ("Directory", workspace["working_dir"]),
        ("Trust", workspace["trust_level"] or "as configured (default_trust)"),
        ("Sessions", _count(workspace)),
        ("MCPs", _selection(capabilities["mcps"])),
        ("Skills", _selection(capabilities["skills"])),
        ("Agents", _selection(capabilities["agents"])),
        ("Strict", "no other MCP servers than these" if workspace["strict_mcps"] else None),
        ("Sandbox", ", ".join(f"{key}={value}" for key, value in workspace["sandbox"].items())),
        ("Created", workspace["created_at"]),
        ("Deleted", workspace["deleted_at"]),
    ]
    return [workspace["slug"], *(f"{name + ':':<11}{line(value, 10_000)}" for name, value in facts if value)]


def _selection(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names) or "none"
