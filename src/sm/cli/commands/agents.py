"""List the agent types that can be spawned.

They stand in config.yaml, or each in a file NAME.md: in .sm/agents or .claude/agents of the workspace's
directory, in agents/ beside config.yaml, in ~/.claude/agents. The first of a name counts.

\b
Example:
  sm agents
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import Table, print_json, print_lines, print_table
from sm.cli.display.text import JsonObject, line
from sm.cli.options import agent_types_query, workspaces
from sm.wire import decode


@click.command(help=__doc__)
@click.option(
    "--workspace",
    metavar="SLUG",
    shell_complete=workspaces,
    help="As sm spawn --workspace SLUG would find them.",
)
@json_option
def command(workspace: str | None, call: Call) -> None:
    query = agent_types_query(call.instance.session_id, workspace)
    text = call.client.text("GET", "/v1/agents", query)
    if call.as_json:
        print_json(text)
        return
    answer = decode(text)
    agents = answer["agents"]
    where = f"In workspace {line(answer['workspace'])}" if answer["workspace"] else "In no workspace"
    print_lines([f"{where}:" if agents else f"{where}: no agent types"])
    if agents:
        rows = [(line(a["name"]), _facts(a), line(a["origin"], 4096), _description(a)) for a in agents]
        print_table(Table(rows, aligned=3))
    print_warnings([*answer["warnings"], *(f"{a['origin']}: {w}" for a in agents for w in a["warnings"])])


def _facts(agent: JsonObject) -> str:
    facts = [agent["provider"], agent["model"], "spawnable" if agent["spawnable"] else None]
    return ", ".join(line(fact) for fact in facts if fact)


def _description(agent: JsonObject) -> str:
    if agent["shadowed_by"]:
        return f"does not count: {line(agent['name'])} stands in {line(agent['shadowed_by'], 4096)}"
    if agent["problem"]:
        return f"cannot be used: {line(agent['problem'], 1000)}"
    return line(agent["description"] or "", 300)
