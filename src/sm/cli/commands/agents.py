"""List the agent types that you can spawn.

An agent type is defined in config.yaml or in a file TYPE.md. When a name is defined more than once, the first of
these places wins:

\b
  1. config.yaml
  2. .sm/agents and .claude/agents in the directory of the workspace
  3. agents/ next to config.yaml
  4. ~/.claude/agents

Rules that sm approve --always has written follow the types. config.yaml has the others (auto_allow, auto_deny).

\b
Examples:
  sm agents
  sm agents --workspace shop
"""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import print_json, print_lines, print_table
from sm.cli.display.sums import estimate_words
from sm.cli.display.text_table import Table
from sm.cli.options import agent_types_query, workspaces
from sm.client.http import decode_answer
from sm.core.lines import JsonObject, line


@click.command(help=__doc__)
@click.option(
    "--workspace",
    metavar="WORKSPACE",
    shell_complete=workspaces,
    help="Agent types for this workspace; - for no workspace.  [default: the workspace of the current directory]",
)
@json_option
def command(workspace: str | None, call: Call) -> None:
    query = agent_types_query(call.instance.session_id, workspace)
    text = call.client.text("GET", "/v1/agents", query)
    if call.as_json:
        print_json(text)
        return
    answer = decode_answer(text)
    agents = answer["agents"]
    where = f"In workspace {line(answer['workspace'])}" if answer["workspace"] else "In no workspace"
    print_lines([f"{where}:" if agents else f"{where}: no agent types"])
    if agents:
        rows = [
            (line(a["name"]), _facts(a), line(a["origin"], 4096), _description(a, answer["workspace"]))
            for a in agents
        ]
        print_table(Table(rows, aligned=3, is_cut=False))
    rules = answer.get("rules", ())  # an older daemon has none
    if rules:
        print_lines(["Allowed without a question by sm approve --always:"])
        of_rules = [(line(r["agent_type"]), line(r["allow"], 600), line(r["origin"], 4096)) for r in rules]
        print_table(Table(of_rules, aligned=2, is_cut=False))
    print_warnings([*answer["warnings"], *(f"{a['origin']}: {w}" for a in agents for w in a["warnings"])])


def _facts(agent: JsonObject) -> str:
    mode = agent.get("permission_mode")  # an older daemon says nothing of it
    facts = [agent["provider"], agent["model"], mode, "spawnable" if agent["spawnable"] else None]
    return ", ".join(line(fact) for fact in facts if fact)


def _description(agent: JsonObject, workspace: str | None) -> str:
    if agent["shadowed_by"]:
        return f"not used: {line(agent['name'])} from {line(agent['shadowed_by'], 4096)} takes precedence"
    if agent.get("agreement", "agreed") != "agreed":
        command = f"sm workspace agree {line(workspace or 'WORKSPACE')}"
        return f"left out until the operator agrees to it ({line(agent['agreement'])}): {command}"
    if agent["problem"]:
        return f"cannot be used: {line(agent['problem'], 1000)}"
    estimate = estimate_words(agent.get("estimate"))  # an older daemon has none
    description = line(agent["description"] or "", 300)
    return "; ".join(filter(None, (description, estimate and f"usually {estimate}")))
