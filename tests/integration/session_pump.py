"""MCP clients of sessions of an instance, over `sm mcp`."""

import socket
import sys
import time
from pathlib import Path

from tests.instance import Instance, until
from tests.mcp.speech import Speech

HOST = Path(__file__).parent / "pump_host.py"
COMMAND = f"""
  Host: {{command: [{sys.executable}, {HOST}], prompt: file}}
"""
"""The configuration of the agent type that the sessions have."""


class SessionPump(Speech):
    """An MCP client of a new session, over a process `sm mcp` that the session has started."""

    def __init__(self, instance: Instance) -> None:
        super().__init__()
        directory = instance.work / f"host-{time.monotonic_ns()}"
        directory.mkdir()
        self.session = self._spawn(instance, directory)
        self.path = directory / "pump"
        until(self.path.exists, "the session to listen")
        self.connect()

    def _spawn(self, instance: Instance, directory: Path) -> str:
        """Start a session that runs `pump_host` in the directory, and return its id."""
        session: str = instance.spawn("Host", "serve", "--working-dir", str(directory))["session_id"]
        return session

    def connect(self) -> None:
        """Start another `sm mcp` in the session, and shake hands."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(None)
        connection.connect(str(self.path))
        self.stream = connection.makefile("rwb")
        connection.close()
        self.greet()

    def write(self, line: bytes) -> None:
        self.stream.write(line + b"\n")
        self.stream.flush()

    def read_line(self) -> bytes:
        return self.stream.readline()
