"""MCP clients of sessions of an instance, over `sm mcp`."""

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tests.cli.mcp.client import notification, request
from tests.instance import Instance, until
from tests.load import scaled

HOST = Path(__file__).parent / "pump_host.py"
COMMAND = f"""
  Host: {{command: [{sys.executable}, {HOST}], prompt: file}}
"""
"""The configuration of the agent type that the sessions have."""


class SessionPump:
    """An MCP client of a new session, over a process `sm mcp` that the session has started."""

    def __init__(self, instance: Instance) -> None:
        directory = instance.work / f"host-{time.monotonic_ns()}"
        directory.mkdir()
        self.session = self._spawn(instance, directory)
        self.path = directory / "pump"
        until(self.path.exists, "the session to listen")
        self._number = 0
        self.connect()

    def _spawn(self, instance: Instance, directory: Path) -> str:
        """Start a session that runs `pump_host` in the directory, and return its id."""
        session: str = instance.spawn("Host", "serve", "--working-dir", str(directory))["session_id"]
        return session

    def connect(self) -> None:
        """Start another `sm mcp` in the session, and shake hands."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(scaled(60))
        connection.connect(str(self.path))
        self.stream = connection.makefile("rwb")
        connection.close()
        client = {"name": "test", "version": "1"}
        parameters = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.send(request("initialize", "first", parameters))
        assert self.read()["result"]["serverInfo"]["name"] == "sm"
        self.send(notification("notifications/initialized"))

    def write(self, line: bytes) -> None:
        self.stream.write(line + b"\n")
        self.stream.flush()

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode())

    def read(self) -> Any:
        return json.loads(self.stream.readline())

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
