"""Every tool, in the order of the list that agents get."""

from sm.mcp.tool import Tool
from sm.mcp.tools import (
    agent_tools,
    control_tools,
    message_tools,
    operation_tools,
    progress_tools,
    report_tools,
    request_tools,
    session_tools,
    wait_tools,
)

_MODULES = (
    session_tools,
    message_tools,
    progress_tools,
    wait_tools,
    report_tools,
    request_tools,
    control_tools,
    agent_tools,
)
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (*(tool for module in _MODULES for tool in module.tools), *operation_tools.operation_tools())
}

__all__ = ["TOOLS"]
