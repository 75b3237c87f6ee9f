"""A client of `POST /v1/mcp` that sends any message, and sessions that send messages as themselves."""

import asyncio
import itertools
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sm.client.connection import request
from sm.wire import REPORT_READ_HEADER
from tests.sim import wire
from tests.sim.blocking import drive
from tests.sim.processes import PlayedProcess
from tests.sim.stage import Instance

VERSION = "2025-11-25"
CONFIG = """
  Client: {command: [sleep, "1000000"], prompt: file}
limits: {spawn_interval_s: 0}
"""


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    kind: str
    body: str
    asks_for_report: bool
    """The daemon wants to know when the client has read the answer."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages of the answer, in order."""
        if self.kind == "text/event-stream":
            return [json.loads(line[6:]) for line in self.body.splitlines() if line.startswith("data: ")]
        return [json.loads(self.body)] if self.body else []


class HeldPost:
    """A message whose answer comes later."""

    def __init__(self, instance: Instance, answer: "asyncio.Task[HttpAnswer]") -> None:
        self._instance = instance
        self._answer = answer

    def done(self) -> bool:
        return self._answer.done()

    def result(self) -> HttpAnswer:
        """Let time pass until the answer is complete, and return it."""

        async def wait() -> HttpAnswer:
            return await self._answer

        return drive(self._instance.loop, wait())


class HeldCall:
    """A call of a tool that goes on while the test does."""

    def __init__(self, post: HeldPost) -> None:
        self._post = post

    def done(self) -> bool:
        return self._post.done()

    def result(self) -> dict[str, Any]:
        """Let time pass until the call is answered, and return its result, which must be a success."""
        return _shown(_result(self._post.result()))


class McpClient:
    """A client process as the daemon sees it: one id for all its messages.

    `process`: the process that sends them, by default the shell of the operator.
    """

    def __init__(
        self, instance: Instance, process: PlayedProcess | None = None, *, version: str | None = VERSION
    ) -> None:
        self.instance = instance
        self._process = process or instance.world.shell
        self.headers: dict[str, str] = {"Mcp-Client": secrets.token_hex(8)}
        if version is not None:
            self.headers["Mcp-Protocol-Version"] = version
        self.ids = itertools.count(1)

    @property
    def process(self) -> PlayedProcess:
        return self._process

    def post(self, body: object, headers: Mapping[str, str] | None = None) -> HttpAnswer:
        """Send a body, bytes as they are and anything else as JSON, and wait for the answer."""
        return self.start_post(body, headers).result()

    def start_post(self, body: object, headers: Mapping[str, str] | None = None) -> HeldPost:
        """Send a body, and leave its answer for later."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        # Without a token: the daemon identifies the process by its pid.
        sent = request("POST", "/v1/mcp", body=raw, headers={**self.headers, **(headers or {})})
        caller = self.instance.world.programs.caller(self.process)
        return HeldPost(self.instance, self.instance.loop.create_task(_carried(caller, sent)))

    def request(self, method: str, params: object = None, **headers: str) -> dict[str, Any]:
        """The response to a request."""
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method}
        answer = self.post(message if params is None else {**message, "params": params}, headers)
        assert answer.status == 200, answer
        return answer.messages[-1]

    def start_call(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> HeldCall:
        """Call a tool, and leave its result for later."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": "tools/call", "params": params}
        return HeldCall(self.start_post(message, {} if key is None else {"Idempotency-Key": key}))

    def call(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The result of a tool, which must succeed, without its duration."""
        return self.start_call(tool, key=key, **arguments).result()

    def refused(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The error of a tool that must fail."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": "tools/call", "params": params}
        result = _result(self.post(message, {} if key is None else {"Idempotency-Key": key}))
        assert result["isError"], result
        error: dict[str, Any] = result["structuredContent"]["error"]
        return error

    def invalid(self, tool: str, arguments: object) -> dict[str, Any]:
        """The JSON-RPC error of a call that is not valid."""
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        error: dict[str, Any] = answer["error"]
        return error


async def _carried(caller: wire.Caller, sent: bytes) -> HttpAnswer:
    answer = await caller.carry(sent)
    kind = answer.headers.get("content-type", "").partition(";")[0]
    asks = REPORT_READ_HEADER.lower() in answer.headers
    return HttpAnswer(answer.status, kind, answer.body.decode(), asks)


def _result(answer: HttpAnswer) -> dict[str, Any]:
    """The result of a tool, which is the same as text and as structured content."""
    assert answer.status == 200, answer
    response = answer.messages[-1]
    assert "result" in response, response
    result: dict[str, Any] = response["result"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result


def _shown(result: dict[str, Any]) -> dict[str, Any]:
    assert not result["isError"], result
    shown: dict[str, Any] = result["structuredContent"]
    assert shown.pop("duration_ms") >= 0
    return shown


class McpSession(McpClient):
    """A session of an instance that sends messages as itself. `client()` makes further clients in it."""

    def __init__(self, instance: Instance, *options: str) -> None:
        self.directory = instance.work / f"client-{secrets.token_hex(4)}"
        self.directory.mkdir()
        spawned = instance.spawn("Client", "relay", "--working-dir", str(self.directory), *options)
        self.id: str = spawned["session_id"]
        super().__init__(instance)

    @property
    def process(self) -> PlayedProcess:
        """The process of the session, which is another one after a restore."""
        return self.instance.world.programs.running[self.id].process

    def client(self, *, version: str | None = VERSION) -> McpClient:
        """Another client process of the session."""
        return McpClient(self.instance, self.process, version=version)

    def send(self, path: str, body: Mapping[str, object], *, key: str | None = None) -> Any:
        """The answer to another request of the session than one of MCP."""
        caller = self.instance.world.programs.caller(self.process)
        return drive(self.instance.loop, caller.post(path, body, key=key))

    def refusal(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """The error of another request of the session, which must fail."""
        caller = self.instance.world.programs.caller(self.process)
        status, answer = drive(self.instance.loop, caller.exchange("POST", path, body))
        assert status >= 400, answer
        error: dict[str, Any] = json.loads(answer)["error"]
        return error
