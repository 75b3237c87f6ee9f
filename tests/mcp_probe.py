"""A small MCP server over stdio. Its one tool reports the arguments and environment that the server was started with.

Run by its path with the standard library alone: `python3 mcp_probe.py LABEL`.
"""

import json
import os
import sys
from typing import Any

TOOL = {
    "name": "whoami",
    "description": "Says what this server was started with",
    "inputSchema": {"type": "object", "properties": {}},
}


def description() -> dict[str, Any]:
    """The label, and the environment variables that tests look at."""
    environment = {
        name: value for name, value in os.environ.items() if name.startswith(("SM_", "PROBE_", "LD_"))
    }
    return {"label": sys.argv[1], "environment": environment}


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": parameters["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "probe", "version": "1"},
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(description())}]}
        case "ping":
            return {}
        case _:
            return None


def serve() -> None:
    if "PROBE_LOG" in os.environ:
        with open(os.environ["PROBE_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps(description()) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        outcome = (
            {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        )
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
