"""The name of the MCP server that sm gives to its agents. Pure."""

OWN_SERVER = "sm"
"""The agent CLI names its tools `mcp__sm__create_session` and the like."""
