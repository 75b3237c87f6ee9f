"""Every tool, in the order of the list that agents get."""

from sm.mcp.tool import Tool
from sm.mcp.tools import reports, sessions

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*sessions.tools, *reports.tools)}

__all__ = ["TOOLS"]
