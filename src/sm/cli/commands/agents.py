"""`sm agents`: the agent types that can be spawned."""

import os
from collections.abc import Mapping
from typing import Any

import click

from sm.cli.display.errors import warning_text
from sm.cli.display.output import print_json, print_lines, print_table
from sm.cli.display.table import Table
from sm.cli.display.text import line
from sm.cli.instance import Instance
from sm.cli.options import agent_types_query, json_option, workspaces
from sm.wire import decode


@click.command()
@click.option(
    "--workspace",
    metavar="SLUG",
    shell_complete=workspaces,
    help="As sm spawn --workspace SLUG would find them.",
)
@json_option
def command(workspace: str | None, as_json: bool) -> None:
    """List the agent types that can be spawned.

    They stand in config.yaml, or each in a file NAME.md: in .sm/agents or .claude/agents of the workspace's
    directory, in agents/ beside config.yaml, in ~/.claude/agents. The first of a name counts.

    \b
    Example:
      sm agents
    """
    instance = Instance(os.environ)
    text = instance.client().text("GET", "/v1/agents", agent_types_query(instance.session_id, workspace))
    if as_json:
        print_json(text)
        return
    found = decode(text)
    where = f"workspace {line(found['workspace'])}" if found["workspace"] else "no workspace"
    if found["agents"]:
        print_lines([f"In {where}:"])
        print_table(_table(found["agents"]), "")
    else:
        print_lines([f"In {where}: no agent types"])
    warnings = [*found["warnings"], *(f"{a['origin']}: {w}" for a in found["agents"] for w in a["warnings"])]
    for warning in warnings:
        click.echo(warning_text(warning), nl=False, err=True)


def _table(agents: list[Mapping[str, Any]]) -> Table:
    return Table([(line(a["name"]), _kind(a), line(a["origin"], 4096), _about(a)) for a in agents], aligned=3)


def _kind(agent: Mapping[str, Any]) -> str:
    facts = [agent["provider"], agent["model"], "spawnable" if agent["spawnable"] else None]
    return ", ".join(line(fact) for fact in facts if fact)


def _about(agent: Mapping[str, Any]) -> str:
    if agent["shadowed_by"]:
        return f"does not count: {line(agent['name'])} stands in {line(agent['shadowed_by'], 4096)}"
    if agent["problem"]:
        return f"cannot be used: {line(agent['problem'], 1000)}"
    return line(agent["description"] or "", 300)
