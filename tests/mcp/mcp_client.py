"""A client of `POST /v1/mcp` that sends any message, and sessions that send messages as themselves."""

import http.client
import itertools
import json
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fork_server import fork_server
from tests.instance import Instance, until
from tests.load import scaled

PROXY = Path(__file__).parents[1] / "integration" / "session_proxy.py"
VERSION = "2025-11-25"
CONFIG = f"""
  Proxy: {{command: [{sys.executable}, {PROXY}], prompt: file}}
  Tty: {{command: [cat], input: tty, prompt: file}}
limits: {{spawn_interval_s: 0}}
"""


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    kind: str
    body: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages of the answer, in order."""
        if self.kind == "text/event-stream":
            return [json.loads(line[6:]) for line in self.body.splitlines() if line.startswith("data: ")]
        return [json.loads(self.body)] if self.body else []


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("sm", timeout=scaled(60))
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class McpClient:
    """A client process as the daemon sees it: one id for all its messages."""

    def __init__(self, path: Path | str, *, version: str | None = VERSION) -> None:
        fork_server().load("sm.mcp.sdk")  # half a second of a core for each later daemon of this worker
        self.path = str(path)
        self.headers: dict[str, str] = {"Mcp-Client": secrets.token_hex(8)}
        if version is not None:
            self.headers["Mcp-Protocol-Version"] = version
        self.ids = itertools.count(1)

    def post(
        self,
        body: object,
        headers: Mapping[str, str] | None = None,
        *,
        after_event: Callable[[], object] = lambda: None,
    ) -> HttpAnswer:
        """Send a body: bytes as they are, anything else as JSON.

        `after_event` is called after the first event of a stream.
        """
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = _Connection(self.path)
        try:
            connection.request("POST", "/v1/mcp", raw, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            kind = (response.getheader("Content-Type") or "").partition(";")[0]
            first = response.readline()
            if kind == "text/event-stream":
                first += response.readline()
                after_event()
            return HttpAnswer(response.status, kind, (first + response.read()).decode())
        finally:
            connection.close()

    def request(self, method: str, params: object = None, **headers: str) -> dict[str, Any]:
        """The response to a request."""
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method}
        answer = self.post(message if params is None else {**message, "params": params}, headers)
        assert answer.status == 200, answer
        return answer.messages[-1]

    def call(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, which must succeed, without its duration."""
        result = self._call(tool, key, arguments)
        assert not result["isError"], result
        shown: dict[str, Any] = result["structuredContent"]
        assert shown.pop("duration_ms") >= 0
        return shown

    def refused(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The error of a tool that must fail."""
        result = self._call(tool, key, arguments)
        assert result["isError"], result
        error: dict[str, Any] = result["structuredContent"]["error"]
        return error

    def invalid(self, tool: str, arguments: object) -> dict[str, Any]:
        """The JSON-RPC error of a call that is not valid."""
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        error: dict[str, Any] = answer["error"]
        return error

    def _call(self, tool: str, key: str | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = self.request("tools/call", {"name": tool, "arguments": arguments}, **headers)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result


class McpSession(McpClient):
    """A session of an instance that sends messages as itself."""

    def __init__(self, instance: Instance, *options: str) -> None:
        directory = instance.work / f"proxy-{secrets.token_hex(4)}"
        directory.mkdir()
        spawned = instance.spawn("Proxy", "relay", "--working-dir", str(directory), *options)
        self.id: str = spawned["session_id"]
        socket_path = directory / "proxy"
        until(socket_path.exists, "the proxy of the session to listen")
        super().__init__(socket_path)
