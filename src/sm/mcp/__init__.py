"""The MCP server: tools for agents, each bound to the session that calls it."""

from sm.mcp.server import McpServer

__all__ = ["McpServer"]
