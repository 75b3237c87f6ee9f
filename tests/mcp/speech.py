"""The words of an MCP client over stdio: the handshake, calls of tools, and their results."""

import json
from abc import ABC, abstractmethod
from typing import Any

from tests.cli.mcp.client import notification, request


class Speech(ABC):
    """A client that writes lines to a process `sm mcp`, and reads its lines."""

    def __init__(self) -> None:
        self._number = 0

    @abstractmethod
    def write(self, line: bytes) -> None:
        """Write a line without its end."""

    @abstractmethod
    def read_line(self) -> bytes:
        """Wait for the next line."""

    def greet(self) -> None:
        """Shake hands."""
        client = {"name": "test", "version": "1"}
        parameters = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.send(request("initialize", "first", parameters))
        assert self.read()["result"]["serverInfo"]["name"] == "sm"
        self.send(notification("notifications/initialized"))

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode())

    def read(self) -> Any:
        return json.loads(self.read_line())

    def start(self, tool: str, **arguments: Any) -> int:
        """Send a call, and return its id."""
        self._number += 1
        self.send(request("tools/call", self._number, {"name": tool, "arguments": arguments}))
        return self._number

    def result(self, number: int) -> dict[str, Any]:
        """The structured result of the call that is answered next."""
        answer = self.read()
        assert answer["id"] == number, answer
        assert answer["result"]["isError"] is False, answer
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.result(self.start(tool, **arguments))
