"""The facts of `linked`."""

from sm.core.programs import AgentProgram, RuledTool, RuleKind

PROGRAM = AgentProgram(
    name="linked", ruled_tools={"run": RuledTool(RuleKind.COMMAND, "line", unruled="unwatched")}
)
