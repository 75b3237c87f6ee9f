"""The facts of `toy`."""

from sm.core.programs import AgentProgram, ImageRecipe, McpClient, McpLaunch, RuledTool, RuleKind


def _mcp_config(launch: McpLaunch) -> str:
    return f"server {' '.join(launch.command)}\n"


PROGRAM = AgentProgram(
    name="toy",
    location_variables=("TOY_HOME",),
    inherited_variables=("TOY_KEY",),
    container_variables={"TOY_IN_A_BOX": "1"},
    reserved_variables=frozenset({"TOY_IN_A_BOX"}),
    home_secrets=(".toy",),
    executed_files=(".toy/run",),
    login=("toy", "login"),
    image=ImageRecipe("@toys/toy", "package/bin/toy", tested="7.0"),
    ruled_tools={"run": RuledTool(RuleKind.COMMAND, "line", unruled="unwatched")},
    question_tools=frozenset({"wonder"}),
    plan_tools=frozenset({"scheme"}),
    mcp_client=McpClient("~/.toy/servers", _mcp_config),
)
