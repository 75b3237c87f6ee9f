"""The facts of claude that other rooms need. Standard library alone: commands and containers load this module."""

from sm.core.programs import AgentProgram, ImageRecipe, McpClient, McpLaunch, RuledTool, RuleKind


def _mcp_config(launch: McpLaunch) -> dict[str, object]:
    program, *arguments = launch.command
    # Without alwaysLoad claude shows the model only the names of the tools.
    return {"mcpServers": {"sm": {"command": program, "args": arguments, "alwaysLoad": True}}}


_FILE = RuledTool(RuleKind.PATH, "file_path")

PROGRAM = AgentProgram(
    name="claude",
    location_variables=("CLAUDE_CONFIG_DIR",),
    inherited_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR"),
    container_variables={"CLAUDE_CODE_SANDBOXED": "1", "DISABLE_AUTOUPDATER": "1"},
    reserved_variables=frozenset({"CLAUDE_CODE_SANDBOXED"}),
    home_secrets=(".claude",),
    executed_files=(".claude/settings.json", ".claude/settings.local.json", ".mcp.json"),
    login=("claude", "auth", "login"),
    image=ImageRecipe("@anthropic-ai/claude-code", "package/claude", tested="2.1.332"),
    ruled_tools={
        # With this argument the command runs outside the sandbox of claude.
        "Bash": RuledTool(
            RuleKind.COMMAND, "command", unruled="dangerouslyDisableSandbox", remark="description"
        ),
        **dict.fromkeys(("Read", "Edit", "Write", "MultiEdit"), _FILE),
        "NotebookEdit": RuledTool(RuleKind.PATH, "notebook_path"),
        "WebFetch": RuledTool(RuleKind.URL, "url"),
        "Grep": RuledTool(RuleKind.SEARCH, "path"),
        "Glob": RuledTool(RuleKind.SEARCH, "path", names="pattern"),
    },
    question_tools=frozenset({"AskUserQuestion"}),
    plan_tools=frozenset({"ExitPlanMode"}),
    bypass_modes=frozenset({"bypassPermissions"}),
    mcp_client=McpClient(".mcp.json in the project, or ~/.claude.json for all projects", _mcp_config),
)
