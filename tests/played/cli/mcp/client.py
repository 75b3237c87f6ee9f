"""An MCP client of a played process `sm mcp`: `PumpClient` of tests/cli/mcp/client.py without a process."""

import json
from typing import Any

from tests.cli.mcp.client import request
from tests.sim.pump import PumpProcess


class PumpClient:
    """Writes to the process, and reads from it."""

    def __init__(self, process: PumpProcess) -> None:
        self.process = process

    def write(self, data: bytes) -> None:
        self.process.feed(data)

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def call(self, tool: str, number: int | str = 1, **arguments: Any) -> None:
        self.send(request("tools/call", number, {"name": tool, "arguments": arguments}))

    def read(self) -> Any:
        """The next message on stdout."""
        line = self.process.read_line()
        assert line, "stdout has ended"
        return json.loads(line)

    def end(self) -> tuple[int | None, str]:
        """Close stdin, wait for the end, and return the exit code and stderr."""
        self.process.close_input()
        errors = self.process.read_errors()
        return self.process.code, errors

    def kill(self) -> None:
        self.process.kill()
