"""Every tool, in the order of the list that agents get."""

from sm.mcp.tool import Tool
from sm.mcp.tools import control, messages, operations, output, reports, requests, sessions, waits

_MODULES = (sessions, messages, output, waits, reports, requests, control)
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (*(tool for module in _MODULES for tool in module.tools), *operations.operation_tools())
}

__all__ = ["TOOLS"]
