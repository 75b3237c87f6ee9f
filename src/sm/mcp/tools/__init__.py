"""Every tool, in the order of the list that agents get."""

from sm.mcp.tool import Tool
from sm.mcp.tools import (
    control,
    message_tools,
    operations,
    output,
    reports,
    request_tools,
    session_tools,
    waits,
)

_MODULES = (session_tools, message_tools, output, waits, reports, request_tools, control)
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (*(tool for module in _MODULES for tool in module.tools), *operations.operation_tools())
}

__all__ = ["TOOLS"]
